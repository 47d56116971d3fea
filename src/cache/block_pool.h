// Who owns which blocks of one cache group: free list, reference counts, permanent reservations, and the blocks that
// are free but still hold a cached prefix (evicted least recently used first). Not thread-safe: the engine thread owns
// it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/prefix_index.h"

namespace monograph {

class BlockPool {
 public:
  /// Blocks 1..n_blocks-1 are usable; block 0 is the null block.
  explicit BlockPool(int n_blocks, BlockHash hash_mask = ~BlockHash{0});

  /// Takes blocks out for good (scratch): no key, no metric, never evicted, not part of capacity(). All or nothing.
  std::optional<std::vector<BlockId>> reserve(int n);
  void release_reservation(std::span<const BlockId> blocks);

  /// Blocks that requests can ever have (SPEC S-50), and those that can be had now (free + cached).
  int capacity() const { return n_blocks() - 1 - n_reserved_; }
  int n_available() const { return static_cast<int>(free_.size()) + n_cached_; }
  int n_used() const { return n_used_; }
  int n_cached() const { return n_cached_; }
  std::int64_t n_references() const { return n_references_; }  ///< Over all used blocks; for audits.
  int n_blocks() const { return static_cast<int>(blocks_.size()); }

  /// n blocks with one reference each, evicting cached ones when the free list is short; nullopt if not available now.
  std::optional<std::vector<BlockId>> allocate(int n);
  /// Drops a reference; at zero the block becomes cached if it is published, else free. A sequence releases its blocks
  /// last to first, so that a prefix outlives what depends on it.
  void release(BlockId block);

  /// Makes a full block findable as the continuation of `chain`, and moves the chain past it; only after its K and V
  /// were written (S-103). Content already known keeps its first block. Returns whether this block is now the published
  /// one.
  bool publish(BlockId block, PrefixChain& chain, std::span<const TokenId> ids);
  /// The published block that continues `chain` with `ids`, with one more reference, if there is one; moves the chain
  /// past it.
  std::optional<BlockId> acquire(PrefixChain& chain, std::span<const TokenId> ids);
  /// Nobody finds this block again, whoever holds it now.
  void forget(BlockId block);
  /// Forgets every cached prefix (blocks in use stay, unpublished).
  void clear_cache();

  /// After the books were found wrong: every block that is not reserved is free and holds nothing. Whoever held one
  /// must have let go of it without release().
  void start_afresh();

  /// O(1): free + cached + used + reserved + null = total.
  bool counts_add_up() const;
  /// CHECKs: every block is exactly one of null, reserved, free, cached, used; counts add up; index and blocks agree.
  void check_invariants() const;

 private:
  friend struct BlockPoolDamage;  // of the tests, which must see that the audits find it

  enum class State : std::uint8_t { kNull, kReserved, kFree, kCached, kUsed };
  struct Block {
    State state = State::kFree;
    bool published = false;
    int references = 0;
    BlockHash slot = 0;                  // in the index, while published
    BlockId lru_prev = 0, lru_next = 0;  // among cached blocks; 0 is the list's end
  };
  BlockId take_one();
  void unpublish(BlockId block);
  void lru_push(BlockId block);
  void lru_remove(BlockId block);
  int count(State state) const;

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;  // a stack: the block freed last is used first, so untouched memory stays untouched
  PrefixIndex index_;
  BlockId lru_head_ = 0, lru_tail_ = 0;
  int n_reserved_ = 0, n_cached_ = 0, n_used_ = 0;
  std::int64_t n_references_ = 0;
};

}  // namespace monograph
