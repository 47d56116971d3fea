// Vector types shared by the kernels of one target, and base/math.h's sequences on vectors.
#if defined(MONOGRAPH_SIMD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_VECTORS_INL_H_
#undef MONOGRAPH_SIMD_VECTORS_INL_H_
#else
#define MONOGRAPH_SIMD_VECTORS_INL_H_
#endif

#include "base/bf16.h"
#include "base/math.h"
#include "hwy/highway.h"
#include "ops/cpu/packed_matrix.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, kLanes>;
using U = hn::RebindToUnsigned<F>;
using I = hn::RebindToSigned<F>;
using V = hn::Vec<F>;
constexpr int kN = static_cast<int>(HWY_MIN(HWY_LANES(float), kLanes));  // floats per vector
constexpr int kPanelVecs = kLanes / kN;                                  // vectors per panel
static_assert(kPanelVecs * kN == kLanes);

HWY_INLINE V Zero() { return hn::Zero(F()); }
HWY_INLINE V Set(float x) { return hn::Set(F(), x); }
HWY_INLINE V Load(const float* p) { return hn::LoadU(F(), p); }
HWY_INLINE void Store(V v, float* p) { hn::StoreU(v, F(), p); }

/// exp_f32 of each lane, bit for bit.
HWY_INLINE V Exp(V x) {
  namespace k = exp_constants;
  x = hn::IfThenElse(hn::Lt(x, Set(k::kLow)), Set(k::kLow), x);
  x = hn::IfThenElse(hn::Gt(x, Set(k::kHigh)), Set(k::kHigh), x);
  const V shifted = hn::MulAdd(x, Set(k::kLog2e), Set(k::kMagic));
  const V n = hn::Sub(shifted, Set(k::kMagic));
  V r = hn::MulAdd(n, Set(-k::kLn2High), x);
  r = hn::MulAdd(n, Set(-k::kLn2Low), r);
  V p = hn::MulAdd(Set(k::kC4), r, Set(k::kC3));
  p = hn::MulAdd(p, r, Set(k::kC2));
  p = hn::MulAdd(p, r, Set(k::kC1));
  p = hn::MulAdd(p, r, Set(k::kC0));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), Set(1.0f));
  const I di;
  const auto exponent = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, static_cast<std::int32_t>(0x4b400000)));
  const auto half = hn::ShiftRight<1>(exponent);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(F(), hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(F(), hn::ShiftLeft<23>(hn::Add(hn::Sub(exponent, half), bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

HWY_INLINE V Silu(V x) { return hn::Div(x, hn::Add(Set(1.0f), Exp(hn::Neg(x)))); }

/// to_bf16 of each lane, in the low half.
HWY_INLINE hn::Vec<U> Bf16Bits(V x) {
  const U du;
  const auto u = hn::BitCast(du, x);
  const auto upper = hn::ShiftRight<16>(u);
  const auto odd = hn::And(upper, hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(du, 0x7fff)), odd));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::IfThenElse(nan, hn::Or(upper, hn::Set(du, 0x40)), rounded);
}
HWY_INLINE V RoundBf16(V x) { return hn::BitCast(F(), hn::ShiftLeft<16>(Bf16Bits(x))); }

/// kN bfloat16 values.
HWY_INLINE V LoadBf16(const void* p) {
  const hn::Rebind<std::uint16_t, F> d16;
  const auto u = hn::PromoteTo(U(), hn::LoadU(d16, static_cast<const std::uint16_t*>(p)));
  return hn::BitCast(F(), hn::ShiftLeft<16>(u));
}
/// kN halves.
HWY_INLINE V LoadF16(const void* p) {
  const hn::Rebind<hwy::float16_t, F> d16;
  return hn::PromoteTo(F(), hn::LoadU(d16, static_cast<const hwy::float16_t*>(p)));
}

/// Adds 16 running lanes up by the fixed tree.
HWY_INLINE float SumLanes(const V lanes[kPanelVecs]) {
  alignas(64) float room[kLanes];
  for (int i = 0; i < kPanelVecs; ++i) Store(lanes[i], room + i * kN);
  return sum_lanes(room);
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
