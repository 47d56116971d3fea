// The K and V tensors themselves, per layer and cache group; hands out KvLayer views.
#pragma once
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/kv_layer.h"

namespace monograph {

struct KvCacheShape {
  int n_layers = 0, n_kv_heads = 0, head_dim = 0;
  int block_size = 64;
  DType dtype = DType::kF32;
  std::string group_tag = "full";         ///< One group of full attention for the dense families.
  std::int64_t bytes_per_block() const {  // of all layers, K and V
    return 2LL * n_layers * n_kv_heads * head_dim * block_size * (dtype == DType::kF32 ? 4 : 2);
  }
};

class KvCache {
 public:
  /// n_blocks includes the null block 0. Throws Error(kOutOfMemory).
  KvCache(Device& device, const KvCacheShape& shape, int n_blocks);
  std::vector<KvLayer> layers() const;
  int n_blocks() const { return n_blocks_; }
  const KvCacheShape& shape() const { return shape_; }

 private:
  KvCacheShape shape_;
  int n_blocks_;
  std::vector<Buffer> buffers_;  // K and V of each layer
};

}  // namespace monograph
