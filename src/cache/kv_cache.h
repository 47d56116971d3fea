// The K and V tensors themselves, per layer and cache group; hands out KvLayer views.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/kv_layer.h"

namespace monograph {

struct KvCacheShape {
  int n_layers = 0, n_kv_heads = 0, head_dim = 0;
  int block_size = 64;
  DType dtype = DType::kF32;
  std::string group_tag = "full";  ///< One group of full attention for the dense families.
  /// Of one layer's K or V.
  std::int64_t bytes_per_side() const {
    return std::int64_t{n_kv_heads} * head_dim * block_size * (dtype == DType::kF32 ? 4 : 2);
  }
  std::int64_t bytes_per_block() const { return 2LL * n_layers * bytes_per_side(); }  // of all layers, K and V
};

class KvCache {
 public:
  /// Addresses of `max_blocks` blocks, memory of the first `n_blocks`; both include the null block 0. Throws
  /// Error(kOutOfMemory).
  KvCache(Device& device, const KvCacheShape& shape, int max_blocks, int n_blocks);
  KvCache(Device& device, const KvCacheShape& shape, int n_blocks) : KvCache(device, shape, n_blocks, n_blocks) {}
  /// Memory of more blocks; their addresses and the views stay.
  void grow(int n_blocks);
  /// Views of all `max_blocks`.
  std::vector<KvLayer> layers() const;
  int n_blocks() const { return n_blocks_; }
  const KvCacheShape& shape() const { return shape_; }

 private:
  KvCacheShape shape_;
  int max_blocks_, n_blocks_ = 0;
  std::vector<std::unique_ptr<Region>> regions_;  // K and V of each layer
};

}  // namespace monograph
