// What a product reads, and what becomes of its elements. out[m, n] = epilogue(sum_k a[m, k] * w[n, k]).
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

namespace monograph::cuda {

/// K is a multiple of 64.
struct GemmInputs {
  const __nv_bfloat16* a;  // [rows, K]
  const __nv_bfloat16* w;  // [N, K]
  int n, k;
  const std::int32_t* n_rows;  // device count of real rows of a; null: max_rows
  int max_rows;
  int a_rows = 0;  // rows of a that may be read, if more: tiles that reach past the last one are copied slowly
  __host__ __device__ int readable_rows() const { return a_rows > max_rows ? a_rows : max_rows; }
};

/// How many segments of K a product sums apart, a rule of (N, K) alone: out = ((s0 + s1) + s2) + s3, each segment K / S
/// values long (a multiple of 64) and summed in steps of 16 in order. Every kernel follows it, so that rows keep their
/// bits whichever kernel serves them; it shortens the chain of dependent sums where few rows meet a long K.
__host__ __device__ inline int k_segments(int n, int k) {
  for (int s = 4; s > 1 && n <= 2048 && k >= 1024; --s)
    if (k % (64 * s) == 0) return s;
  return 1;
}

/// No tile, nor the tiles of a cluster, has more rows: `a` with room for a multiple of it is read without a row
/// missing.
inline constexpr int kMostTileRows = 256;
inline std::int64_t with_whole_tiles(std::int64_t rows) {
  return (rows + kMostTileRows - 1) / kMostTileRows * kMostTileRows;
}

/// At most this many rows go to the narrow kernels, in at most a CTA a multiprocessor.
inline constexpr int kNarrowRows = 16;

/// RMS norm of the rows of `a` on their way in: a[m] * weight / sqrt(mean(a[m]^2) + eps). No weight: no norm.
struct RowNorm {
  const float* weight = nullptr;
  float eps = 0.0f;
  const std::int32_t* rows = nullptr;  // row m of the product is row rows[m] of a; null: m itself
};

}  // namespace monograph::cuda
