// What becomes of the qkv product: bias, per-head RMS norm of q and k, rotation, and K and V to their blocks. Weight
// rows are permuted within a head (head_layout.h), so that the quad of lanes that holds 32 neighbouring product
// columns of a row holds 16 rotation pairs whole: a *group*. Sums of squares go group by group in one fixed order, so a
// row's bits are the same whichever kernel made the product.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/head_layout.h"
#include "ops/cuda/quad.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda {

struct QkvEpilogue {
  const float* bias;  // [(H + 2 K) D] or null
  const float *q_norm, *k_norm;
  float eps;
  const float *cos, *sin;  // [n_positions, D / 2]
  int n_positions;
  const std::int32_t *positions, *kv_locs, *n_rows;
  const std::int32_t* position_ids;  // [C, P] with id_of_frequency, else null
  int position_factor;
  int n_heads, n_kv_heads, head_dim, block_size;
  __nv_bfloat16 *q, *k, *v;
  unsigned char id_of_frequency[128];

  __device__ bool is_value(int head) const { return head >= n_heads + n_kv_heads; }
  __device__ const float* norm_of(int head) const {
    return is_value(head) ? nullptr : head < n_heads ? q_norm : k_norm;
  }
  /// First of this lane's four low dimensions of a group, which are also the frequencies of its rotations; its four
  /// high ones are head_dim / 2 further (head_layout.h).
  __device__ int low_dimension(int group) const { return group * 16 + threadIdx.x % 4 * 4; }
  __device__ int clamped(int position) const { return min(max(position, 0), n_positions - 1); }
};

/// What a row's groups share, read once.
struct QkvRow {
  int token, position;
  std::int64_t kv_row;  // of its kv head 0; negative: nowhere (the null block is never written)
  bool valid;

  __device__ QkvRow(const QkvEpilogue& e, int token, bool valid)
      : token(valid ? token : 0), position(0), kv_row(-1), valid(valid) {
    if (!valid) return;
    position = e.clamped(e.positions[token]);
    const std::int32_t loc = e.kv_locs[token];
    if (loc >= e.block_size)
      kv_row = static_cast<std::int64_t>(loc / e.block_size) * e.n_kv_heads * e.block_size + loc % e.block_size;
  }
  /// cos or sin (whichever `table` has) of frequencies f .. f + 3, f a multiple of 4.
  template <bool kByIds>
  __device__ float4 angles(const QkvEpilogue& e, const float* table, int f) const {
    const int half = e.head_dim / 2;
    if constexpr (!kByIds)
      return __ldg(reinterpret_cast<const float4*>(table + static_cast<std::int64_t>(position) * half + f));
    const auto one = [&](int frequency) {
      const int at = e.position_ids[token * e.position_factor + e.id_of_frequency[frequency]];
      return __ldg(table + static_cast<std::int64_t>(e.clamped(at)) * half + frequency);
    };
    return make_float4(one(f), one(f + 1), one(f + 2), one(f + 3));
  }
  /// Where the row of `head` goes, or null.
  __device__ __nv_bfloat16* destination(const QkvEpilogue& e, int head) const {
    if (!valid) return nullptr;
    if (head < e.n_heads) return e.q + (static_cast<std::int64_t>(token) * e.n_heads + head) * e.head_dim;
    if (kv_row < 0) return nullptr;
    const int kv_head = (head - e.n_heads) % e.n_kv_heads;
    return (e.is_value(head) ? e.v : e.k) + (kv_row + static_cast<std::int64_t>(kv_head) * e.block_size) * e.head_dim;
  }
};

/// This lane's share of a group of a vector over a head's dimensions, in the places of the group's values: tiles 0 and
/// 1 have the low dimensions, 2 and 3 the high ones.
__device__ __forceinline__ void load_group(const QkvEpilogue& e, const float* of_head, int group, PieceValues& v) {
  const float* from = of_head + e.low_dimension(group);
#pragma unroll
  for (int high = 0; high < 2; ++high) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from + high * (e.head_dim / 2)));
    v[2 * high][0] = four.x, v[2 * high][1] = four.y, v[2 * high + 1][0] = four.z, v[2 * high + 1][1] = four.w;
  }
}

__device__ __forceinline__ void add_bias(const QkvEpilogue& e, int head, int group, PieceValues& v) {
  if (!e.bias) return;
  PieceValues bias;
  load_group(e, e.bias + head * e.head_dim, group, bias);
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j][0] += bias[j][0], v[j][1] += bias[j][1];
}

/// Sum of squares of the group's 32 values, known to the quad: each lane's in order of columns, then the quad's.
__device__ __forceinline__ float group_squares(const PieceValues& v) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) sum = fmaf(v[j][1], v[j][1], fmaf(v[j][0], v[j][0], sum));
  return quad_sum(sum);
}

/// 1 / sqrt(mean + eps) from the head's sum of squares, which is its groups' in ascending order.
__device__ __forceinline__ float head_scale(const QkvEpilogue& e, float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(e.head_dim) + e.eps);
}

/// A lane's share of what a group of a head multiplies by: the norm's weights, and cos and sin of a row's angles.
struct GroupFactors {
  PieceValues weight;
  __device__ GroupFactors(const QkvEpilogue& e, int head, int group) {
    if (const float* norm = e.norm_of(head)) load_group(e, norm, group, weight);
  }
};
template <bool kByIds>
struct RowAngles {
  float4 cos, sin;
  __device__ RowAngles(const QkvEpilogue& e, const QkvRow& row, int group)
      : cos(row.angles<kByIds>(e, e.cos, e.low_dimension(group))),
        sin(row.angles<kByIds>(e, e.sin, e.low_dimension(group))) {}
};

/// Norm (`scale` is the head's, 1 without a norm), rotation and store of one group of a row of `head` that goes to `to`
/// (null: nowhere). All lanes of the warp call it; nothing in it diverges but the store.
template <bool kByIds>
__device__ __forceinline__ void finish_group(const QkvEpilogue& e, __nv_bfloat16* to, int head, int group,
                                             PieceValues& v, float scale, const GroupFactors& factors,
                                             const RowAngles<kByIds>& angles) {
  const bool rotates = !e.is_value(head), norms = e.norm_of(head) != nullptr;
  const float cos[2][2] = {{angles.cos.x, angles.cos.y}, {angles.cos.z, angles.cos.w}},
              sin[2][2] = {{angles.sin.x, angles.sin.y}, {angles.sin.z, angles.sin.w}};
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) v[j][i] = norms ? v[j][i] * scale * factors.weight[j][i] : v[j][i];
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = v[j][i], high = v[j + 2][i];
      v[j][i] = rotates ? fmaf(low, cos[j][i], -(high * sin[j][i])) : low;
      v[j + 2][i] = rotates ? fmaf(high, cos[j][i], low * sin[j][i]) : high;
    }
  if (!to) return;
  to += e.low_dimension(group);
#pragma unroll
  for (int high = 0; high < 2; ++high)
    *reinterpret_cast<uint2*>(to + high * (e.head_dim / 2)) =
        make_uint2(pack_bf16(v[2 * high][0], v[2 * high][1]), pack_bf16(v[2 * high + 1][0], v[2 * high + 1][1]));
}

}  // namespace monograph::cuda
