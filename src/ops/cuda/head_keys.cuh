// The best rank keys that the head's product leaves beside its logits, so that a greedy row needs no second look.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/gemm_epilogues.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/sampling.h"

namespace monograph::cuda {

/// Stores logits; per row and CTA the best key of ids below n_vocab, sampling::kBadKey if one of them is bad.
struct StoreLogits {
  static constexpr bool kGathers = true, kAfterNorm = true, kWholeHeads = false;  // kGathers: rows of a are picked
  StoreFloat store;
  int n_vocab;
  std::uint64_t* keys;             // [kNarrowRows, kMultiprocessors]
  std::uint64_t best[2] = {0, 0};  // this thread's, of rows m < 8 and the others

  __device__ void meet(int m, int n, float z) {
    if (n >= n_vocab) return;
    const std::uint64_t key = sampling::is_bad(z) ? sampling::kBadKey : sampling::rank_key(z, n);
    best[0] = m < 8 && key > best[0] ? key : best[0];
    best[1] = m >= 8 && key > best[1] ? key : best[1];
  }
  __device__ void operator()(int m, int n, float c0, float c1) {
    store(m, n, c0, c1);
    meet(m, n, c0), meet(m, n + 1, c1);
  }
  /// By all threads of the CTA: a lane holds rows lane / 4 and lane / 4 + 8.
  __device__ void finish(int rows) {
    __shared__ std::uint64_t found[8][kNarrowRows];
    const int lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    for (int half = 0; half < 2; ++half) {
      for (int d = 1; d < 4; d *= 2) {
        const std::uint64_t other = __shfl_xor_sync(~0u, best[half], d);
        best[half] = other > best[half] ? other : best[half];
      }
      if (lane % 4 == 0) found[threadIdx.x / 32][lane / 4 + 8 * half] = best[half];
    }
    __syncthreads();
    const int row = threadIdx.x;
    if (row >= rows) return;
    std::uint64_t top = 0;
    for (int w = 0; w < n_warps; ++w) top = found[w][row] > top ? found[w][row] : top;
    keys[row * kMultiprocessors + blockIdx.x] = top;
  }
};

}  // namespace monograph::cuda
