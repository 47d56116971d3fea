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
};

/// How many segments of K a product sums apart, a rule of (N, K) alone: out = ((s0 + s1) + s2) + s3, each segment K / S
/// values long (a multiple of 64) and summed in steps of 16 in order. Every kernel follows it, so that rows keep their
/// bits whichever kernel serves them; it shortens the chain of dependent sums where few rows meet a long K.
__host__ __device__ inline int k_segments(int n, int k) {
  static_cast<void>(n), static_cast<void>(k);
  return 1;
}

/// RMS norm of the rows of `a` on their way in: a[m] * weight / sqrt(mean(a[m]^2) + eps). No weight: no norm.
struct RowNorm {
  const float* weight = nullptr;
  float eps = 0.0f;
  const std::int32_t* rows = nullptr;  // row m of the product is row rows[m] of a; null: m itself
};

/// Epilogues take pairs of neighbouring columns n, n + 1 (n even) of row m.
struct StoreFloat {
  float* out;
  std::int64_t stride;
  int n_columns;
  __device__ void operator()(int m, int n, float c0, float c1) const {
    float* to = out + m * stride + n;
    if (n + 1 < n_columns && stride % 2 == 0) {
      *reinterpret_cast<float2*>(to) = make_float2(c0, c1);
      return;
    }
    if (n < n_columns) to[0] = c0;
    if (n + 1 < n_columns) to[1] = c1;
  }
};
/// What `read` returns may be asked for before the sums are there, and passed on with them.
struct AddResidual {
  __nv_bfloat16* x;
  int stride;
  __device__ __nv_bfloat162* at(int m, int n) const {
    return reinterpret_cast<__nv_bfloat162*>(x + static_cast<std::int64_t>(m) * stride + n);
  }
  __device__ __nv_bfloat162 read(int m, int n) const { return *at(m, n); }
  __device__ void operator()(int m, int n, float c0, float c1, __nv_bfloat162 before) const {
    const float2 old = __bfloat1622float2(before);
    *at(m, n) = __floats2bfloat162_rn(old.x + c0, old.y + c1);
  }
  __device__ void operator()(int m, int n, float c0, float c1) const { (*this)(m, n, c0, c1, read(m, n)); }
};
/// Weight rows alternate gate and up, so a thread holds both halves of one output.
struct GatedSilu {
  __nv_bfloat16* out;
  int stride;
  __device__ void operator()(int m, int n, float gate, float up) const {
    out[static_cast<std::int64_t>(m) * stride + n / 2] = __float2bfloat16_rn(gate / (1.0f + __expf(-gate)) * up);
  }
};

}  // namespace monograph::cuda
