// What every attention kernel shares, and with it the class of bits: scores in steps of 16 over the head, key tiles of
// 64 and splits of 512 keys at absolute positions, a split summed tile by tile, splits combined in ascending order. A
// row's bits depend on nothing but its own query, keys and values, so decode, chunk and whole prompt agree.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/inputs.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/quad.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda {

inline constexpr int kKeys = 64, kSplitTiles = 512 / kKeys;

struct AttentionArguments {
  __nv_bfloat16* out;              // [C, H, D]
  const __nv_bfloat16 *q, *k, *v;  // [C, H, D]; [block][kv head][64][D]
  const std::int32_t* table;       // [S, table_width]
  int table_width, n_heads, n_kv_heads, capacity;
  bool first_group;  // the table is the one whose first blocks the items hold
  float scale_log2;  // attention scale * log2(e), > 0
  AttentionWork work;
};

/// 2^x within 2 ulp; subnormal results are zero.
__device__ __forceinline__ float power2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Weights are 2^(score * scale - base). A base follows the row's largest score only when that is more than 2^8 above
/// it: rescaling what has been summed is rare then, and weights stay far from overflow.
__device__ __forceinline__ float next_base(float base, float top_score, float scale_log2) {
  const float scaled = top_score * scale_log2;
  return scaled > base + 8.0f ? scaled : base;
}
/// What sums at the old base are multiplied with; exactly 1 when it stays.
__device__ __forceinline__ float rescale(float old_base, float base) {
  return old_base == base ? 1.0f : power2(old_base - base);
}
/// What a score is lowered by; 0 for a row that has seen no key.
__device__ __forceinline__ float shift_of(float base) { return base == -INFINITY ? 0.0f : base; }
__device__ __forceinline__ float weight(float score, float scale_log2, float shift) {
  return power2(fmaf(score, scale_log2, -shift));
}

/// Sum of the four weights that a lane holds of 16 neighbouring keys. A tile's sum is that of its four groups, in
/// pairs; lanes are summed apart, and meet when a split ends.
__device__ __forceinline__ float group_sum(float a, float b, float c, float d) { return (a + b) + (c + d); }
__device__ __forceinline__ float tile_sum(float g0, float g1, float g2, float g3) { return (g0 + g1) + (g2 + g3); }

/// The scores that a lane holds of one of its two rows and a tile's 64 keys, `s` as mma.sync's accumulators, become
/// weights in place; base and sum follow, and `factor` is what sums at the old base are multiplied with.
__device__ __forceinline__ void weigh_row(float (&s)[32], int i, float top, float scale_log2, float& base, float& sum,
                                          float& factor) {
  const float old = base;
  base = next_base(old, quad_max(top), scale_log2);
  factor = rescale(old, base);
  const float shift = shift_of(base);
  float groups[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    float* w = s + 8 * g + 2 * i;
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j / 2 * 4 + j % 2] = weight(w[j / 2 * 4 + j % 2], scale_log2, shift);
    groups[g] = group_sum(w[0], w[1], w[4], w[5]);
  }
  sum = fmaf(sum, factor, tile_sum(groups[0], groups[1], groups[2], groups[3]));
}

/// A row's splits so far: values are to be combined as fmaf(total, keep, split * add).
struct SplitTotal {
  float base = -INFINITY, sum = 0.0f;
  float keep, add;

  __device__ __forceinline__ void close(float split_base, float split_sum) {
    const float top = fmaxf(base, split_base), shift = shift_of(top);
    keep = power2(base - shift);
    add = power2(split_base - shift);
    sum = fmaf(sum, keep, split_sum * add);
    base = top;
  }
  __device__ __forceinline__ float combine(float total, float split) const { return fmaf(total, keep, split * add); }
};

/// Where row r of a sequence (token r / group, query head r % group of the kv head) lies in q and out.
template <int D>
__device__ __forceinline__ std::int64_t row_offset(const AttentionArguments& arg, int first_token, int kv_head, int r) {
  const int group = arg.work.heads_per_kv;
  return ((static_cast<std::int64_t>(first_token) + r / group) * arg.n_heads + kv_head * group + r % group) * D;
}

}  // namespace monograph::cuda
