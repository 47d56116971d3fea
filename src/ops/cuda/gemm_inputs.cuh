// What a product reads, and what becomes of its elements. out[m, n] = epilogue(scale[m] * sum_k a[m, k] * w[n, k]).
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

namespace monograph::cuda {

/// The part of an RMS norm that waits until after the product: `a` holds x * weight, and row m of the product is
/// multiplied by 1 / sqrt(mean(x[m]^2) + eps). One rounding an element either way, and whoever writes x prepares the
/// norm with it (NextNorm). No squares: no norm.
struct RowScale {
  const float* squares = nullptr;  // [rows, K / columns]: sums of squares of x over `columns` neighbours
  int columns = 0;                 // square_columns()
  float eps = 0.0f;
  const float* ready = nullptr;  // [rows]: what rows are multiplied by, where a kernel has summed the squares before
};

/// What whoever writes x leaves for the norm that follows (row_norm.cuh). No weight: none follows.
struct NextNorm {
  const float* weight = nullptr;      // [n]
  __nv_bfloat16* weighted = nullptr;  // [rows, n] = bf16(x * weight)
  float* squares = nullptr;           // [rows, n / columns]
  int n = 0, columns = 0;
};

/// K is a multiple of 64.
struct GemmInputs {
  const __nv_bfloat16* a;  // [rows, K]
  const __nv_bfloat16* w;  // [N, K]
  int n, k;
  const std::int32_t* n_rows;  // device count of real rows of the product; null: max_rows
  int max_rows;
  int a_rows = 0;  // rows of a that may be read, if more: tiles that reach past the last one are copied slowly
  RowScale scale{};
  // Row m of the product is row rows[m] of a; null: m itself. Only the head's narrow kernel gathers rows.
  const std::int32_t* rows = nullptr;
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
/// Rows of a that stay in shared memory whole, in bytes: one or two rows of a long K come in panels all the same, more
/// are better served by a wide kernel (Qwen3-8B, 16 rows: 5.4 ms a step instead of 6.8).
inline constexpr int kNarrowBytes = 100 * 1024;
__host__ __device__ inline int narrow_pitch(int k) { return k * 2 + 16; }
inline bool is_narrow(const GemmInputs& in) {
  return in.max_rows <= 2 || (in.max_rows <= kNarrowRows && in.max_rows * narrow_pitch(in.k) <= kNarrowBytes);
}

/// Over how many neighbouring columns of a row squares are summed by who writes them: 8 where narrow kernels and tiles
/// have no more at hand; else 32, for the readers' sake.
inline int square_columns(int max_rows) { return max_rows <= 64 ? 8 : 32; }
/// Room for the squares of up to `max_rows` rows of `n` columns.
inline std::int64_t squares_bytes(std::int64_t max_rows, std::int64_t n) {
  const std::int64_t few = max_rows < 64 ? max_rows : 64, by_8 = few * (n / 8), by_32 = max_rows * (n / 32);
  return 4 * (by_8 > by_32 ? by_8 : by_32);
}

}  // namespace monograph::cuda
