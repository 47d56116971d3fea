// The norm of one row by one warp; every kernel that normalises uses it, so a row's bits are the same wherever it
// happens.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

namespace monograph::cuda {

__device__ __forceinline__ float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

/// 1 / sqrt(mean + eps) of a row, from its lanes' sums of squares; a fixed tree over the four of a lane and the lanes.
__device__ __forceinline__ float norm_scale(const float (&sums)[4], float eps, int n) {
  const float sum = warp_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return rsqrtf(fmaf(sum, 1.0f / static_cast<float>(n), eps));
}

/// A row, or kHeld * 256 values of it from `begin` on, in the registers of a warp: lane l holds pieces of 8 values, l,
/// l + 32, ...; zeros past the end.
template <int kHeld>
struct HeldRow {
  int4 pieces[kHeld];
  int first = 0;

  __device__ __forceinline__ void load(const __nv_bfloat16* x, int n, int begin = 0) {
    first = begin / 8 + static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = first + 32 * j;
      pieces[j] = i < n / 8 ? reinterpret_cast<const int4*>(x)[i] : make_int4(0, 0, 0, 0);
    }
  }
  /// A lane sums its pieces in order, their four pairs apart.
  __device__ __forceinline__ void add_squares(float (&sums)[4]) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 v = pair(pieces[j], p);
        sums[p] = fmaf(v.y, v.y, fmaf(v.x, v.x, sums[p]));
      }
  }
  /// 1 / sqrt(mean(x^2) + eps) of a row that is held whole.
  __device__ __forceinline__ float scale(float eps, int n) const {
    float sums[4] = {};
    add_squares(sums);
    return norm_scale(sums, eps, n);
  }
  /// to[i] = bf16(x[i] * scale * weight[i]). Of `n_parts` warps that hold the row (1, 2 or 4) each writes every
  /// n_parts-th piece of a lane.
  __device__ __forceinline__ void write(void* to, float scale, const float* weight, int n, int part,
                                        int n_parts) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int i = first + 32 * j;
      if (i >= n / 8 || (j & (n_parts - 1)) != part) continue;
      const float4 w0 = reinterpret_cast<const float4*>(weight)[2 * i],
                   w1 = reinterpret_cast<const float4*>(weight)[2 * i + 1];
      const float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
      int4 normed;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 v = pair(pieces[j], p);
        reinterpret_cast<__nv_bfloat162*>(&normed)[p] =
            __floats2bfloat162_rn(v.x * scale * w[2 * p], v.y * scale * w[2 * p + 1]);
      }
      reinterpret_cast<int4*>(to)[i] = normed;
    }
  }

 private:
  static __device__ __forceinline__ float2 pair(const int4& piece, int p) {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(&piece)[p]);
  }
};

/// to[i] = bf16(x[i] * weight[i] / sqrt(mean(x^2) + eps)), by one warp. `n` is a multiple of 8; `to` and `weight` may
/// be shared or global memory.
__device__ __forceinline__ void normalise_row(void* to, const __nv_bfloat16* x, const float* weight, float eps, int n) {
  if (n <= 4 * 256) {
    HeldRow<4> row;
    row.load(x, n);
    return row.write(to, row.scale(eps, n), weight, n, 0, 1);
  }
  HeldRow<16> row;
  float sums[4] = {};
  for (int begin = 0; begin < n; begin += 16 * 256) {
    row.load(x, n, begin);
    row.add_squares(sums);
  }
  const float scale = norm_scale(sums, eps, n);
  for (int begin = 0; begin < n; begin += 16 * 256) {
    if (n > 16 * 256) row.load(x, n, begin);
    row.write(to, scale, weight, n, 0, 1);
  }
}

}  // namespace monograph::cuda
