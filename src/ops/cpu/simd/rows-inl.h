// Primitives that walk one row: norms, activations, conversions, the sampler's passes over the logits.
#if defined(MONOGRAPH_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_ROWS_INL_H_
#undef MONOGRAPH_SIMD_ROWS_INL_H_
#else
#define MONOGRAPH_SIMD_ROWS_INL_H_
#endif

#include <cmath>
#include <limits>

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd/vectors-inl.h"
#include "ops/sampling.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

inline float RmsScale(const float* x, int n, float eps) {
  V lanes[kPanelVecs];
  for (V& lane : lanes) lane = Zero();
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int v = 0; v < kPanelVecs; ++v) {
      const V value = Load(x + i + v * kN);
      lanes[v] = hn::MulAdd(value, value, lanes[v]);
    }
  }
  alignas(64) float sums[kLanes];
  for (int v = 0; v < kPanelVecs; ++v) Store(lanes[v], sums + v * kN);
  for (; i < n; ++i) sums[i % kLanes] = fmaf(x[i], x[i], sums[i % kLanes]);
  return 1.0f / std::sqrt(sum_lanes(sums) / static_cast<float>(n) + eps);
}

inline void Scale(float* out, const float* x, float scale, const float* weight, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(hn::Mul(hn::Mul(Load(x + i), Set(scale)), Load(weight + i)), out + i);
  for (; i < n; ++i) out[i] = (x[i] * scale) * weight[i];
}

inline void SiluMultiply(float* out, const float* gate, const float* up, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(hn::Mul(Silu(Load(gate + i)), Load(up + i)), out + i);
  for (; i < n; ++i) out[i] = silu_f32(gate[i]) * up[i];
}

inline void Rotate(float* x, const float* cos, const float* sin, int half) {
  int i = 0;
  for (; i + kN <= half; i += kN) {
    const V a = Load(x + i), b = Load(x + i + half), c = Load(cos + i), s = Load(sin + i);
    Store(hn::MulSub(a, c, hn::Mul(b, s)), x + i);
    Store(hn::MulAdd(b, c, hn::Mul(a, s)), x + i + half);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = fmaf(a, cos[i], -(b * sin[i]));
    x[i + half] = fmaf(b, cos[i], a * sin[i]);
  }
}

inline void Add(float* x, const float* y, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(hn::Add(Load(x + i), Load(y + i)), x + i);
  for (; i < n; ++i) x[i] += y[i];
}

inline void Widen(float* out, const bf16* x, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(LoadBf16(x + i), out + i);
  for (; i < n; ++i) out[i] = to_float(x[i]);
}

inline void Narrow(bf16* out, const float* x, int n) {
  const hn::Rebind<std::uint16_t, F> d16;
  int i = 0;
  for (; i + kN <= n; i += kN)
    hn::StoreU(hn::TruncateTo(d16, Bf16Bits(Load(x + i))), d16, reinterpret_cast<std::uint16_t*>(out + i));
  for (; i < n; ++i) out[i] = to_bf16(x[i]);
}

inline void RoundToBf16(float* x, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(RoundBf16(Load(x + i)), x + i);
  for (; i < n; ++i) x[i] = to_float(to_bf16(x[i]));
}

/// First index whose element equals `value`.
inline int FindFirst(const float* x, int n, float value) {
  int i = 0;
  for (; i + kN <= n; i += kN) {
    const auto at = hn::FindFirstTrue(F(), hn::Eq(Load(x + i), Set(value)));
    if (at >= 0) return i + static_cast<int>(at);
  }
  for (; i < n; ++i)
    if (x[i] == value) return i;
  return 0;
}

inline RowMaximum Maximum(const float* x, int n) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  V max = Set(-std::numeric_limits<float>::infinity());
  auto good = hn::Eq(max, max);
  int i = 0;
  for (; i + kN <= n; i += kN) {
    const V value = Load(x + i);
    good = hn::And(good, hn::Le(value, Set(kLargest)));
    max = hn::IfThenElse(hn::Gt(value, max), value, max);
  }
  RowMaximum best;
  best.bad = !hn::AllTrue(F(), good);
  best.value = hn::GetLane(hn::MaxOfLanes(F(), max));
  for (; i < n; ++i) {
    best.bad |= sampling::is_bad(x[i]);
    if (x[i] > best.value) best.value = x[i];
  }
  if (best.bad) return best;
  best.id = FindFirst(x, n, best.value);
  best.value = x[best.id];
  return best;
}

inline void Probabilities(float* out, const float* x, int n, float max, float temperature) {
  int i = 0;
  for (; i + kN <= n; i += kN) {
    const V value = Load(x + i);
    const V p = Exp(hn::Div(hn::Sub(value, Set(max)), Set(temperature)));
    Store(hn::IfThenElse(hn::Eq(value, Set(max)), Set(1.0f), p), out + i);
  }
  for (; i < n; ++i) out[i] = sampling::probability(x[i], max, temperature);
}

inline void ExpRow(float* out, const float* x, int n) {
  int i = 0;
  for (; i + kN <= n; i += kN) Store(Exp(Load(x + i)), out + i);
  for (; i < n; ++i) out[i] = exp_f32(x[i]);
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
