#include "cache/kv_cache.h"

#include "base/check.h"

namespace monograph {

KvCache::KvCache(Device& device, const KvCacheShape& shape, int n_blocks) : shape_(shape), n_blocks_(n_blocks) {
  CHECK(n_blocks >= 1 && shape.n_layers > 0 && (shape.dtype == DType::kF32 || shape.dtype == DType::kBF16));
  const std::int64_t bytes = shape.bytes_per_block() / (2LL * shape.n_layers) * n_blocks;
  for (int i = 0; i < 2 * shape.n_layers; ++i) buffers_.push_back(device.allocate(bytes));
}

std::vector<KvLayer> KvCache::layers() const {
  std::vector<KvLayer> layers;
  for (std::size_t i = 0; i < buffers_.size(); i += 2)
    layers.push_back({.k = buffers_[i].data(),
                      .v = buffers_[i + 1].data(),
                      .dtype = shape_.dtype,
                      .n_blocks = n_blocks_,
                      .block_size = shape_.block_size,
                      .n_kv_heads = shape_.n_kv_heads,
                      .head_dim = shape_.head_dim,
                      .group = 0});
  return layers;
}

}  // namespace monograph
