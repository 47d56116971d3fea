// The one way into a pool's books past its interface, for tests of what finds them wrong.
#pragma once
#include <vector>

#include "cache/block_pool.h"

namespace monograph {

struct BlockPoolDamage {
  using State = BlockPool::State;
  BlockPool& pool;
  BlockId reserved = 0, used = 0, published = 0, cached[3] = {}, free = 0;  // one of each kind, for those who say which

  BlockPool::Block& at(BlockId block) { return pool.blocks_[static_cast<std::size_t>(block)]; }
  void set(BlockId block, State state) { at(block).state = state; }
  int& n_used() { return pool.n_used_; }
  int& n_cached() { return pool.n_cached_; }
  int& n_reserved() { return pool.n_reserved_; }
  std::vector<BlockId>& free_list() { return pool.free_; }
  BlockId& lru_head() { return pool.lru_head_; }
  BlockId& lru_tail() { return pool.lru_tail_; }
  PrefixIndex& index() { return pool.index_; }
};

}  // namespace monograph
