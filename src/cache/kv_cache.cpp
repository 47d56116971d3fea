#include "cache/kv_cache.h"

#include "base/check.h"

namespace monograph {

KvCache::KvCache(Device& device, const KvCacheShape& shape, int max_blocks, int n_blocks)
    : shape_(shape), max_blocks_(max_blocks) {
  CHECK(shape.n_layers > 0 && (shape.dtype == DType::kF32 || shape.dtype == DType::kBF16));
  for (int i = 0; i < 2 * shape.n_layers; ++i) regions_.push_back(device.reserve(shape.bytes_per_side() * max_blocks));
  grow(n_blocks);
}

void KvCache::grow(int n_blocks) {
  CHECK(n_blocks >= 1 && n_blocks >= n_blocks_ && n_blocks <= max_blocks_);
  for (const auto& region : regions_) region->commit(shape_.bytes_per_side() * n_blocks);
  n_blocks_ = n_blocks;
}

std::vector<KvLayer> KvCache::layers() const {
  std::vector<KvLayer> layers;
  for (std::size_t i = 0; i < regions_.size(); i += 2)
    layers.push_back({.k = regions_[i]->data(),
                      .v = regions_[i + 1]->data(),
                      .dtype = shape_.dtype,
                      .n_blocks = max_blocks_,
                      .block_size = shape_.block_size,
                      .n_kv_heads = shape_.n_kv_heads,
                      .head_dim = shape_.head_dim,
                      .group = 0});
  return layers;
}

}  // namespace monograph
