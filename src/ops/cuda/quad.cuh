// The four lanes of a quad hold neighbouring column pairs of one row of a product (mma.sync's and wgmma's layout).
// These turn that into 16 contiguous bytes a lane, and sum over the quad in one fixed order.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace monograph::cuda {

/// A lane's share of 32 neighbouring columns of one row: columns 8 j + 2 c and the next, j = 0..3.
using PieceValues = float[4][2];

/// Word j of lane c and word c of lane j change places, for the four lanes of each quad. All lanes of the warp call it.
__device__ __forceinline__ void quad_transpose(std::uint32_t (&w)[4]) {
  const int c = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t other = __shfl_xor_sync(~0u, c & 1 ? w[i] : w[i + 1], 1);
    w[i] = c & 1 ? other : w[i];
    w[i + 1] = c & 1 ? w[i + 1] : other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t other = __shfl_xor_sync(~0u, c & 2 ? w[i] : w[i + 2], 2);
    w[i] = c & 2 ? other : w[i];
    w[i + 2] = c & 2 ? w[i + 2] : other;
  }
}

/// (l0 + l1) + (l2 + l3), known to all four lanes.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float quad_max(float top) {
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
  return fmaxf(top, __shfl_xor_sync(~0u, top, 2));
}

}  // namespace monograph::cuda
