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

/// to[i] = bf16(x[i] * weight[i] / sqrt(mean(x^2) + eps)). Lane l sums the 8-element pieces l, l + 32, ... in order,
/// then a fixed tree over lanes. `n` is a multiple of 8; `to` may be shared or global memory.
__device__ __forceinline__ void normalise_row(void* to, const __nv_bfloat16* x, const float* weight, float eps, int n) {
  const int lane = threadIdx.x % 32;
  const auto* from = reinterpret_cast<const int4*>(x);
  float sum = 0.0f;
  for (int i = lane; i < n / 8; i += 32) {
    const int4 piece = from[i];
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&piece);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 v = __bfloat1622float2(pairs[j]);
      sum = fmaf(v.x, v.x, sum);
      sum = fmaf(v.y, v.y, sum);
    }
  }
  const float scale = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(n) + eps);
  for (int i = lane; i < n / 8; i += 32) {
    int4 piece = from[i];
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&piece);
    const float4 w0 = reinterpret_cast<const float4*>(weight)[2 * i],
                 w1 = reinterpret_cast<const float4*>(weight)[2 * i + 1];
    const float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 v = __bfloat1622float2(pairs[j]);
      pairs[j] = __floats2bfloat162_rn(v.x * scale * w[2 * j], v.y * scale * w[2 * j + 1]);
    }
    reinterpret_cast<int4*>(to)[i] = piece;
  }
}

}  // namespace monograph::cuda
