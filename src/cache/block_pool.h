// Who owns which blocks of one cache group: free list, reference counts, permanent reservations, and the blocks that
// are free but still hold a cached prefix (evicted least recently used first). Not thread-safe: the engine thread owns
// it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace monograph {

using BlockId = std::int32_t;
using BlockHash = std::uint64_t;

class BlockPool {
 public:
  /// Blocks 1..n_blocks-1 are usable; block 0 is the null block.
  explicit BlockPool(int n_blocks);

  /// Takes blocks out for good (scratch): no key, no metric, never evicted, not part of capacity(). All or nothing.
  std::optional<std::vector<BlockId>> reserve(int n);
  void release_reservation(std::span<const BlockId> blocks);

  /// Blocks that requests can ever have (SPEC S-50), and those that can be had now (free + cached).
  int capacity() const;
  int n_available() const;
  int n_used() const;
  int n_cached() const;

  /// n blocks with one reference each, evicting cached ones when the free list is short; nullopt if not available now.
  std::optional<std::vector<BlockId>> allocate(int n);
  void add_reference(BlockId block);
  /// Drops a reference; at zero the block becomes cached if it is published, else free.
  void release(BlockId block);

  /// Makes a full block findable under `hash`; only after its K and V were written (S-103). A hash already known keeps
  /// its first block. Returns whether this block is now the published one.
  bool publish(BlockId block, BlockHash hash);
  /// The published block of `hash` with one more reference, if there is one.
  std::optional<BlockId> acquire(BlockHash hash);
  bool contains(BlockHash hash) const;
  /// Forgets every cached prefix (blocks in use stay, unpublished).
  void clear_cache();

  /// CHECKs: every block is exactly one of null, reserved, free, cached, used; counts add up; index and blocks agree.
  void check_invariants() const;

 private:
  enum class State : std::uint8_t { kNull, kReserved, kFree, kCached, kUsed };
  struct Block {
    State state = State::kFree;
    int references = 0;
    BlockHash hash = 0;
    bool published = false;
    BlockId lru_prev = 0, lru_next = 0;  // among cached blocks; 0 is the list's end
  };
  void evict(BlockId block);
  void lru_push(BlockId block);
  void lru_remove(BlockId block);

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;
  std::unordered_map<BlockHash, BlockId> index_;
  BlockId lru_head_ = 0, lru_tail_ = 0;
  int n_reserved_ = 0, n_cached_ = 0, n_used_ = 0;
};

}  // namespace monograph
