// The register-blocked core that projections and attention share: rows of x times columns of w.
#if defined(MONOGRAPH_SIMD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_BLOCK_INL_H_
#undef MONOGRAPH_SIMD_BLOCK_INL_H_
#else
#define MONOGRAPH_SIMD_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "ops/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// A product of rows and columns. out[r][c] (+)= sum over k of w[k][c] * x[r][k]: k ascending, fused, onto what `out`
/// holds, or onto 0 when `from_zero`. w's columns are whole vectors.
struct Block {
  float* out;
  std::ptrdiff_t out_stride;
  const float* x;
  std::ptrdiff_t x_stride;
  const float* w;
  std::ptrdiff_t w_stride;
  int n_k;
  bool from_zero;
};

/// Rows and vectors of columns that fill the registers: 12 x 2 of 32, or 6 x 2 of 16.
constexpr int kMaxRows = HWY_TARGET == HWY_AVX2 ? 6 : 12;
constexpr int kMaxVecs = 2;

template <int kRows, int kVecs>
HWY_INLINE void MultiplyBlock(const Block& b) {
  V acc[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) acc[r][v] = b.from_zero ? Zero() : Load(b.out + r * b.out_stride + v * kN);
  // Three rows share a pointer, so that the addresses fit the integer registers.
  constexpr int kPointers = (kRows + 2) / 3;
  const float* x[kPointers];
  for (int i = 0; i < kPointers; ++i) x[i] = b.x + 3 * i * b.x_stride;
  const float* w = b.w;
  const std::ptrdiff_t stride = b.x_stride, w_stride = b.w_stride;
  for (int k = b.n_k; k > 0; --k) {
    V column[kVecs];
    for (int v = 0; v < kVecs; ++v) column[v] = Load(w + v * kN);
    w += w_stride;
    for (int r = 0; r < kRows; ++r) {
      const V value = Set(x[r / 3][r % 3 * stride]);
      for (int v = 0; v < kVecs; ++v) acc[r][v] = hn::MulAdd(column[v], value, acc[r][v]);
    }
    for (int i = 0; i < kPointers; ++i) ++x[i];
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVecs; ++v) Store(acc[r][v], b.out + r * b.out_stride + v * kN);
}

template <int kRows, int kVecs>
HWY_NOINLINE void MultiplyRows(const Block& b) {
  MultiplyBlock<kRows, kVecs>(b);
}

template <int kVecs, int kRows>
HWY_INLINE void DispatchRows(const Block& b, int n_rows) {
  if constexpr (kRows > 0) {
    if (n_rows == kRows) return MultiplyRows<kRows, kVecs>(b);
    DispatchRows<kVecs, kRows - 1>(b, n_rows);
  }
}

template <int kVecs>
HWY_INLINE void MultiplyColumns(Block b, int n_rows) {
  // As even as possible: 13 rows are 7 and 6, not 12 and a lonely one.
  for (int n_blocks = (n_rows + kMaxRows - 1) / kMaxRows; n_blocks > 0; --n_blocks) {
    const int n = (n_rows + n_blocks - 1) / n_blocks;
    DispatchRows<kVecs, kMaxRows>(b, n);
    b.x += n * b.x_stride;
    b.out += n * b.out_stride;
    n_rows -= n;
  }
}

/// n_cols is a multiple of kN.
HWY_INLINE void Multiply(Block b, int n_rows, int n_cols) {
  // Few rows: more columns at once, so that enough sums are under way to hide the latency of one.
  if (n_rows <= 3) {
    for (; n_cols >= 4 * kN; n_cols -= 4 * kN, b.w += 4 * kN, b.out += 4 * kN) {
      if (n_rows == 1)
        MultiplyRows<1, 4>(b);
      else if (n_rows == 2)
        MultiplyRows<2, 4>(b);
      else
        MultiplyRows<3, 4>(b);
    }
  }
  for (; n_cols >= kMaxVecs * kN; n_cols -= kMaxVecs * kN, b.w += kMaxVecs * kN, b.out += kMaxVecs * kN)
    MultiplyColumns<kMaxVecs>(b, n_rows);
  if (n_cols > 0) MultiplyColumns<1>(b, n_rows);
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
