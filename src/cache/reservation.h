// Blocks that a pool gave for good, as scratch: owned, and given back exactly once.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace monograph {

/// Moves, does not copy. Its pool outlives it.
class Reservation {
 public:
  /// n blocks, or nothing if the pool does not have them now.
  static std::optional<Reservation> take(BlockPool& pool, int n);
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { give_back(); }

  std::span<const BlockId> blocks() const { return blocks_; }

 private:
  Reservation(BlockPool& pool, std::vector<BlockId> blocks) : pool_(&pool), blocks_(std::move(blocks)) {}
  void give_back();

  BlockPool* pool_;
  std::vector<BlockId> blocks_;
};

}  // namespace monograph
