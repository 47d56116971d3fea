#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "device/cpu/cpu_device.h"
#include "monograph/error.h"

namespace monograph {
namespace {

TEST(KvCache, LayersAreApartAndWhole) {
  CpuDevice device(1);
  const KvCacheShape shape{.n_layers = 3, .n_kv_heads = 2, .head_dim = 4, .block_size = 8, .dtype = DType::kBF16};
  EXPECT_EQ(shape.bytes_per_block(), 2 * 3 * 2 * 4 * 8 * 2);
  const KvCache cache(device, shape, 5);
  const auto layers = cache.layers();
  ASSERT_EQ(layers.size(), 3u);
  const std::int64_t bytes = shape.bytes_per_block() / 6 * 5;
  unsigned char mark = 1;
  for (const KvLayer& layer : layers)
    for (void* tensor : {layer.k, layer.v}) std::memset(tensor, mark++, static_cast<std::size_t>(bytes));
  mark = 1;
  for (const KvLayer& layer : layers) {
    EXPECT_EQ(layer.n_blocks, 5);
    EXPECT_EQ(layer.block_size, 8);
    for (void* tensor : {layer.k, layer.v}) {
      EXPECT_EQ(static_cast<unsigned char*>(tensor)[0], mark);
      EXPECT_EQ(static_cast<unsigned char*>(tensor)[bytes - 1], mark++);
    }
  }
}

TEST(KvCache, GrowsInPlace) {
  CpuDevice device(1);
  const KvCacheShape shape{.n_layers = 2, .n_kv_heads = 1, .head_dim = 4, .block_size = 8};
  KvCache cache(device, shape, 100, 3);
  const auto before = cache.layers();
  static_cast<float*>(before[1].v)[0] = 7.0f;
  EXPECT_EQ(cache.n_blocks(), 3);
  cache.grow(100);
  EXPECT_EQ(cache.n_blocks(), 100);
  const auto after = cache.layers();
  EXPECT_EQ(after[1].v, before[1].v);
  EXPECT_EQ(after[1].n_blocks, 100);
  EXPECT_EQ(static_cast<float*>(after[1].v)[0], 7.0f);
  static_cast<float*>(after[1].v)[shape.bytes_per_side() / 4 * 100 - 1] = 1.0f;
}

TEST(KvCacheDeathTest, ACacheThatNoKernelReadsStopsTheProcess) {
  CpuDevice device(1);
  const KvCacheShape good{.n_layers = 1, .n_kv_heads = 1, .head_dim = 4, .block_size = 8};
  KvCacheShape no_layers = good, quantised = good;
  no_layers.n_layers = 0;
  quantised.dtype = DType::kQ8_0;
  EXPECT_DEATH(KvCache(device, no_layers, 2), "n_layers");
  EXPECT_DEATH(KvCache(device, quantised, 2), "dtype");
}

TEST(KvCacheDeathTest, ItGrowsOnlyWithinItsAddresses) {
  CpuDevice device(1);
  KvCache cache(device, {.n_layers = 1, .n_kv_heads = 1, .head_dim = 4, .block_size = 8}, 4, 2);
  for (int n_blocks : {-1, 0, 1, 5}) EXPECT_DEATH(cache.grow(n_blocks), "n_blocks") << n_blocks;
}

TEST(KvCache, TooLargeIsAnError) {
  CpuDevice device(1);
  const KvCacheShape shape{.n_layers = 1, .n_kv_heads = 1 << 10, .head_dim = 1 << 10, .block_size = 1 << 10};
  try {
    const KvCache cache(device, shape, 1 << 20);
    FAIL() << "4 PB were allocated";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory) << e.what();
  }
}

}  // namespace
}  // namespace monograph
