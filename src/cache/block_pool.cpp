#include "cache/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace monograph {

BlockPool::BlockPool(int n_blocks, BlockHash hash_mask) : index_(hash_mask) {
  CHECK(n_blocks >= 1);
  blocks_.resize(static_cast<std::size_t>(n_blocks));
  blocks_[0].state = State::kNull;
  for (BlockId block = n_blocks - 1; block > 0; --block) free_.push_back(block);
}

std::optional<std::vector<BlockId>> BlockPool::reserve(int n) {
  if (n < 0 || n > n_available()) return std::nullopt;
  std::vector<BlockId> taken;
  for (int i = 0; i < n; ++i) {
    taken.push_back(take_one());
    blocks_[taken.back()].state = State::kReserved;
  }
  n_reserved_ += n;
  return taken;
}

void BlockPool::release_reservation(std::span<const BlockId> blocks) {
  for (BlockId block : blocks) {
    CHECK(block > 0 && block < n_blocks() && blocks_[block].state == State::kReserved);
    blocks_[block].state = State::kFree;
    free_.push_back(block);
    --n_reserved_;
  }
}

std::optional<std::vector<BlockId>> BlockPool::allocate(int n) {
  if (n < 0 || n > n_available()) return std::nullopt;
  std::vector<BlockId> taken;
  taken.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    taken.push_back(take_one());
    blocks_[taken.back()].state = State::kUsed;
    blocks_[taken.back()].references = 1;
  }
  n_used_ += n;
  n_references_ += n;
  return taken;
}

/// A block that holds nothing: a free one, else the least recently used cached one, whose prefix is forgotten.
BlockId BlockPool::take_one() {
  if (free_.empty()) {
    CHECK(lru_head_ != 0);
    unpublish(lru_head_);
  }
  const BlockId block = free_.back();
  free_.pop_back();
  return block;
}

void BlockPool::release(BlockId block) {
  CHECK(block > 0 && block < n_blocks());
  Block& b = blocks_[block];
  CHECK(b.state == State::kUsed);
  --n_references_;
  if (--b.references > 0) return;
  --n_used_;
  if (b.published) {
    b.state = State::kCached;
    ++n_cached_;
    lru_push(block);
  } else {
    b.state = State::kFree;
    free_.push_back(block);
  }
}

bool BlockPool::publish(BlockId block, PrefixChain& chain, std::span<const TokenId> ids) {
  CHECK(block > 0 && block < n_blocks() && blocks_[block].state == State::kUsed && !blocks_[block].published);
  const PrefixKey key(chain, ids);
  const auto inserted = index_.insert(key, block);
  if (inserted.displaced != 0) {
    // Another content (or a prefix that lost its parent) stood here; the index has already dropped it.
    blocks_[inserted.displaced].published = false;
    if (blocks_[inserted.displaced].state == State::kCached) unpublish(inserted.displaced);
  }
  if (inserted.is_new) {
    blocks_[block].published = true;
    blocks_[block].slot = inserted.slot;
  }
  chain.hash = key.hash();
  chain.prefix = inserted.prefix;
  return inserted.is_new;
}

std::optional<BlockId> BlockPool::acquire(PrefixChain& chain, std::span<const TokenId> ids) {
  const PrefixKey key(chain, ids);
  const auto hit = index_.find(key);
  if (!hit) return std::nullopt;
  Block& b = blocks_[hit->block];
  if (b.state == State::kCached) {
    lru_remove(hit->block);
    --n_cached_;
    ++n_used_;
    b.state = State::kUsed;
  }
  ++b.references;
  ++n_references_;
  chain.hash = key.hash();
  chain.prefix = hit->prefix;
  return hit->block;
}

void BlockPool::forget(BlockId block) {
  CHECK(block > 0 && block < n_blocks());
  unpublish(block);
}

void BlockPool::clear_cache() {
  while (lru_head_ != 0) unpublish(lru_head_);
  for (Block& b : blocks_) b.published = false;
  index_.clear();
}

void BlockPool::start_afresh() {
  index_.clear();
  free_.clear();
  lru_head_ = lru_tail_ = 0;
  n_reserved_ = n_cached_ = n_used_ = 0;
  n_references_ = 0;
  blocks_[0] = {.state = State::kNull};
  for (BlockId block = n_blocks() - 1; block > 0; --block) {
    const bool reserved = blocks_[block].state == State::kReserved;
    blocks_[block] = {.state = reserved ? State::kReserved : State::kFree};
    if (reserved)
      ++n_reserved_;
    else
      free_.push_back(block);
  }
}

/// Takes the block out of the index; a cached one becomes free.
void BlockPool::unpublish(BlockId block) {
  Block& b = blocks_[block];
  if (b.published) index_.erase(b.slot);
  b.published = false;
  if (b.state != State::kCached) return;
  lru_remove(block);
  --n_cached_;
  b.state = State::kFree;
  free_.push_back(block);
}

void BlockPool::lru_push(BlockId block) {
  blocks_[block].lru_prev = lru_tail_;
  blocks_[block].lru_next = 0;
  (lru_tail_ != 0 ? blocks_[lru_tail_].lru_next : lru_head_) = block;
  lru_tail_ = block;
}

void BlockPool::lru_remove(BlockId block) {
  Block& b = blocks_[block];
  (b.lru_prev != 0 ? blocks_[b.lru_prev].lru_next : lru_head_) = b.lru_next;
  (b.lru_next != 0 ? blocks_[b.lru_next].lru_prev : lru_tail_) = b.lru_prev;
  b.lru_prev = b.lru_next = 0;
}

bool BlockPool::counts_add_up() const {
  return 1 + n_reserved_ + n_used_ + n_cached_ + static_cast<int>(free_.size()) == n_blocks() && n_used_ >= 0 &&
         n_cached_ >= 0 && n_reserved_ >= 0;
}

int BlockPool::count(State state) const {
  return static_cast<int>(std::ranges::count_if(blocks_, [&](const Block& b) { return b.state == state; }));
}

void BlockPool::check_invariants() const {
  CHECK(counts_add_up());
  CHECK(count(State::kNull) == 1 && blocks_[0].state == State::kNull);
  CHECK(count(State::kReserved) == n_reserved_ && count(State::kUsed) == n_used_);
  CHECK(count(State::kCached) == n_cached_);  // and so, as the sum is right, as many are free as the list holds
  std::size_t n_published = 0;
  std::int64_t n_references = 0;
  for (BlockId block = 0; block < n_blocks(); ++block) {
    const Block& b = blocks_[block];
    CHECK((b.references > 0) == (b.state == State::kUsed) && b.references >= 0);
    CHECK(!b.published || b.state == State::kUsed || b.state == State::kCached);
    CHECK(b.state != State::kCached || b.published);
    if (b.published) CHECK(index_.block_of(b.slot) == block);
    n_published += b.published ? 1 : 0;
    n_references += b.references;
  }
  CHECK(n_references == n_references_);
  CHECK(n_published == index_.size());
  std::vector<bool> is_free(blocks_.size());
  for (BlockId block : free_) {
    CHECK(block > 0 && blocks_[block].state == State::kFree && !is_free[block]);
    is_free[block] = true;
  }
  int in_list = 0;
  BlockId previous = 0;
  for (BlockId block = lru_head_; block != 0; previous = block, block = blocks_[block].lru_next, ++in_list)
    CHECK(blocks_[block].state == State::kCached &&
          blocks_[block].lru_prev == previous);  // no circle: its first block's would differ
  CHECK(in_list == n_cached_ && lru_tail_ == previous);
}

}  // namespace monograph
