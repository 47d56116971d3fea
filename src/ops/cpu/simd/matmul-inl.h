// Rows times packed panels. One row: weights are decoded in registers on their way. More rows: a stretch of a panel
// pair is decoded to scratch that stays in the cache and multiplied with every row.
#if defined(MONOGRAPH_SIMD_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_MATMUL_INL_H_
#undef MONOGRAPH_SIMD_MATMUL_INL_H_
#else
#define MONOGRAPH_SIMD_MATMUL_INL_H_
#endif

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd/block-inl.h"
#include "ops/cpu/simd/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

template <typename Format, bool kHigh>
HWY_INLINE void DecodeRun(float* out, std::ptrdiff_t stride, const Byte* block, int run, int n) {
  for (int v = 0; v < kPanelVecs; ++v) {
    const typename Format::template Run<kHigh> weights(block, run, v * kN);
    for (int j = 0; j < n; ++j) Store(weights.get(j), out + j * stride + v * kN);
  }
}

/// Weights k_begin..k_begin + n_k of a panel, out[k][stride]; k_begin is a multiple of kRun.
template <typename Format>
HWY_NOINLINE void Decode(float* out, std::ptrdiff_t stride, const Byte* panel, int k_begin, int n_k) {
  for (int k = 0; k < n_k; k += kRun) {
    const int run = (k_begin + k) / kRun, in_block = run % Format::kBlockRuns;
    const Byte* block = panel + static_cast<std::int64_t>(run / Format::kBlockRuns) * Format::kBytes;
    const int n = Format::kWholeRuns ? kRun : std::min(kRun, n_k - k);
    if (Format::high(in_block))
      DecodeRun<Format, true>(out + k * stride, stride, block, in_block, n);
    else
      DecodeRun<Format, false>(out + k * stride, stride, block, in_block, n);
  }
}

/// 16 steps of one row with kPanels panels at once, so that several sums hide each other's latency.
template <typename Format, bool kHigh, int kPanels>
HWY_INLINE void MultiplyRun(V acc[kPanels][kPanelVecs], const float* x, const Byte* const blocks[kPanels], int run,
                            int n) {
  using Run = typename Format::template Run<kHigh>;
  for (int j = 0; j < n; ++j) {
    const V value = Set(x[j]);
    for (int p = 0; p < kPanels; ++p)
      for (int v = 0; v < kPanelVecs; ++v) acc[p][v] = hn::MulAdd(Run(blocks[p], run, v * kN).get(j), value, acc[p][v]);
  }
}

template <typename Format, int kPanels>
HWY_NOINLINE void MultiplyRow(float* out, const float* x, const Byte* panel, std::int64_t panel_bytes, int n_k) {
  V acc[kPanels][kPanelVecs];
  for (auto& sums : acc)
    for (V& sum : sums) sum = Zero();
  for (int k = 0; k < n_k; k += kRun) {
    const int run = k / kRun, in_block = run % Format::kBlockRuns;
    const Byte* blocks[kPanels];
    for (int p = 0; p < kPanels; ++p)
      blocks[p] = panel + p * panel_bytes + static_cast<std::int64_t>(run / Format::kBlockRuns) * Format::kBytes;
    const int n = Format::kWholeRuns ? kRun : std::min(kRun, n_k - k);
    if (Format::high(in_block))
      MultiplyRun<Format, true, kPanels>(acc, x + k, blocks, in_block, n);
    else
      MultiplyRun<Format, false, kPanels>(acc, x + k, blocks, in_block, n);
  }
  for (int p = 0; p < kPanels; ++p)
    for (int v = 0; v < kPanelVecs; ++v) Store(acc[p][v], out + p * kLanes + v * kN);
}

/// Panels [begin, end) that share a type, one row.
template <typename Format>
HWY_INLINE void MultiplyOneRow(float* out, const float* x, const CpuPackedMatrix& w, int begin, int end) {
  constexpr int kPanels = 4 / kPanelVecs > 0 ? 4 / kPanelVecs : 1;
  const auto* panel = reinterpret_cast<const Byte*>(w.data(w.panel(begin)));
  const std::int64_t bytes = begin + 1 < end ? w.panel(begin + 1).offset - w.panel(begin).offset : 0;
  for (; end - begin >= kPanels; begin += kPanels, out += kPanels * kLanes, panel += kPanels * bytes)
    MultiplyRow<Format, kPanels>(out, x, panel, bytes, w.cols());
  for (; begin < end; ++begin, out += kLanes, panel += bytes) MultiplyRow<Format, 1>(out, x, panel, bytes, w.cols());
}

/// Up to two panels of a type, any rows.
template <typename Format>
HWY_INLINE void MultiplyRows(Block b, int n_rows, const CpuPackedMatrix& w, int begin, int end, float* scratch) {
  // 64 KiB of decoded weights: half of a level-2 cache at the least, and long enough to hide the accumulators' traffic.
  constexpr int kStretch = 512;
  const int n_cols = (end - begin) * kLanes;
  b.w = scratch;
  b.w_stride = n_cols;
  for (int k = 0; k < w.cols(); k += kStretch) {
    b.n_k = std::min(kStretch, w.cols() - k);
    for (int p = begin; p < end; ++p)
      Decode<Format>(scratch + (p - begin) * kLanes, n_cols, reinterpret_cast<const Byte*>(w.data(w.panel(p))), k,
                     b.n_k);
    b.from_zero = k == 0;
    Multiply(b, n_rows, n_cols);
    b.x += b.n_k;
  }
}

inline void Matmul(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride, int n_rows,
                   const CpuPackedMatrix& w, int panel_begin, int panel_end, Scratch& scratch) {
  while (panel_begin < panel_end) {
    const DType dtype = w.panel(panel_begin).dtype;
    int end = panel_begin + 1;
    while (end < panel_end && w.panel(end).dtype == dtype && (n_rows == 1 || end - panel_begin < 2)) ++end;
    WithFormat(dtype, [&](auto format) {
      using Format = decltype(format);
      if (n_rows == 1) return MultiplyOneRow<Format>(out, x, w, panel_begin, end);
      float* weights = scratch.floats(Scratch::kWeights, 512 * 2 * kLanes);
      MultiplyRows<Format>({out, out_stride, x, x_stride, nullptr, 0, 0, true}, n_rows, w, panel_begin, end, weights);
    });
    out += (end - panel_begin) * kLanes;
    panel_begin = end;
  }
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
