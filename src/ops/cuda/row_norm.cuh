// An RMS norm in two parts. Whoever writes rows of x also leaves x * weight, which the next product reads, and sums of
// squares; the product multiplies its rows by 1 / sqrt(mean + eps). The sums go by one fixed tree (pairs of columns,
// quads of pairs: 8 columns; quads of these: 32; every 32nd of these in order; the lanes of a warp), so a row's bits
// are the same whichever kernels wrote and read it.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/quad.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda {

__device__ __forceinline__ float pair_square(float2 v) { return fmaf(v.y, v.y, v.x * v.x); }
__device__ __forceinline__ float2 unpack_bf16(int word) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}

/// Leaves what `next` wants of the 8 columns of x from `at` on, whose weights are w0 and w1. The lanes of a quad have
/// neighbouring pieces; all lanes of the warp call it.
__device__ __forceinline__ void leave_piece(const NextNorm& next, int row, int at, const int4& x, float4 w0, float4 w1,
                                            bool valid) {
  const float2 v[4] = {unpack_bf16(x.x), unpack_bf16(x.y), unpack_bf16(x.z), unpack_bf16(x.w)};
  float sum = (pair_square(v[0]) + pair_square(v[1])) + (pair_square(v[2]) + pair_square(v[3]));
  if (next.columns == 32) sum = quad_sum(sum);
  if (!valid) return;
  if (next.columns == 8 || threadIdx.x % 4 == 0)
    next.squares[static_cast<std::int64_t>(row) * (next.n / next.columns) + at / next.columns] = sum;
  *reinterpret_cast<int4*>(next.weighted + static_cast<std::int64_t>(row) * next.n + at) =
      make_int4(pack_bf16(v[0].x * w0.x, v[0].y * w0.y), pack_bf16(v[1].x * w0.z, v[1].y * w0.w),
                pack_bf16(v[2].x * w1.x, v[2].y * w1.y), pack_bf16(v[3].x * w1.z, v[3].y * w1.w));
}

/// The same where a quad of lanes has 8 columns, two each from `at` on (next.columns is 8), whose weights are `w`. All
/// lanes of the warp call it.
__device__ __forceinline__ void leave_pair(const NextNorm& next, int row, int at, __nv_bfloat162 x, float2 w,
                                           bool valid) {
  const float2 v = __bfloat1622float2(x);
  const float sum = quad_sum(pair_square(v));
  if (!valid) return;
  if (threadIdx.x % 4 == 0) next.squares[static_cast<std::int64_t>(row) * (next.n / 8) + at / 8] = sum;
  *reinterpret_cast<std::uint32_t*>(next.weighted + static_cast<std::int64_t>(row) * next.n + at) =
      pack_bf16(v.x * w.x, v.y * w.y);
}

/// The same of a whole row x [n] (null: zeros) by the threads of a CTA, which also write it to `to` if that is not
/// null.
__device__ __forceinline__ void leave_row(const NextNorm& next, int row, const int4* x, int4* to, int n) {
  for (int first = 0; first < n / 8; first += blockDim.x) {
    const int i = first + threadIdx.x;
    const bool valid = i < n / 8;
    const int4 piece = valid && x ? x[i] : make_int4(0, 0, 0, 0);
    if (valid && to) to[i] = piece;
    if (!next.weight) continue;
    const auto* weight = reinterpret_cast<const float4*>(next.weight) + (valid ? 2 * i : 0);
    leave_piece(next, row, 8 * i, piece, weight[0], weight[1], valid);
  }
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

/// What rows first .. first + kBatch - 1 of a product of `rows` rows of k values are multiplied by, known to the warp
/// that asks; of rows that do not exist, anything. `of`: the rows of x that they are, null for the same.
template <int kBatch>
__device__ __forceinline__ void row_scales(const RowScale& from, int k, const std::int32_t* of, int first, int rows,
                                           float (&scales)[kBatch]) {
  const int n = k / 32;
  int at[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const int m = max(min(first + b, rows - 1), 0);
    at[b] = (of ? max(of[m], 0) : m) * n + threadIdx.x % 32;
    scales[b] = 0.0f;
  }
  if (from.columns == 32) {
#pragma unroll 1
    for (int g = threadIdx.x % 32; g < n; g += 32)
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        scales[b] += from.squares[at[b]];
        at[b] += 32;
      }
  } else {
#pragma unroll 1
    for (int g = threadIdx.x % 32; g < n; g += 32)
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const float4 p = reinterpret_cast<const float4*>(from.squares)[at[b]];
        scales[b] += (p.x + p.y) + (p.z + p.w);
        at[b] += 32;
      }
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b)
    scales[b] = rsqrtf(fmaf(warp_sum(scales[b]), 1.0f / static_cast<float>(k), from.eps));
}

/// The same of rows first .. first + n_rows - 1 by several warps, to `to` in shared memory.
template <int kBatch>
__device__ __forceinline__ void leave_row_scales(const GemmInputs& in, int first, int n_rows, int rows, float* to,
                                                 int warp, int n_warps) {
#pragma unroll 1
  for (int i = warp * kBatch; i < n_rows; i += n_warps * kBatch) {
    float scales[kBatch];
    row_scales(in.scale, in.k, in.rows, first + i, rows, scales);
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (threadIdx.x % 32 == b && i + b < n_rows) to[i + b] = scales[b];
  }
}

}  // namespace monograph::cuda
