// Exponential, logarithm, SiLU and fixed-order sums in our own operations, so that their bits are the same on every
// host, device and SIMD width. Each function is a fixed sequence of IEEE operations; ops/cpu/simd_math-inl.h has the
// same sequences on vectors, and a test compares them bit for bit.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/portable.h"

namespace monograph {

MONOGRAPH_HOST_DEVICE std::uint32_t bits_of(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
MONOGRAPH_HOST_DEVICE float float_of(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

namespace exp_constants {
inline constexpr float kLow = -104.0f;      // below: rounds to 0
inline constexpr float kHigh = 89.0f;       // above: overflows to infinity
inline constexpr float kMagic = 0x1.8p23f;  // adding it rounds to an integer, ties to even
inline constexpr float kLog2e = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: a product with |n| <= 150 is exact
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, fitted at Chebyshev nodes.
inline constexpr float kC0 = 0x1p-1f, kC1 = 0x1.5554d8p-3f, kC2 = 0x1.5554e4p-5f, kC3 = 0x1.121072p-7f,
                       kC4 = 0x1.6d4926p-10f;
}  // namespace exp_constants

/// e^x within 2 ulp; exp_f32(0) is exactly 1; NaN stays NaN.
MONOGRAPH_HOST_DEVICE float exp_f32(float x) {
  namespace k = exp_constants;
  x = x < k::kLow ? k::kLow : x;
  x = x > k::kHigh ? k::kHigh : x;
  const float shifted = fmaf(x, k::kLog2e, k::kMagic);
  const float n = shifted - k::kMagic;
  float r = fmaf(n, -k::kLn2High, x);
  r = fmaf(n, -k::kLn2Low, r);
  float p = fmaf(k::kC4, r, k::kC3);
  p = fmaf(p, r, k::kC2);
  p = fmaf(p, r, k::kC1);
  p = fmaf(p, r, k::kC0);
  p = fmaf(p, r * r, r) + 1.0f;
  // 2^n in two factors, so that a subnormal result is rounded once.
  const std::int32_t exponent = static_cast<std::int32_t>(bits_of(shifted) - bits_of(k::kMagic));
  const std::int32_t half = exponent >> 1;
  const float first = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  const float second = float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return (p * first) * second;
}

/// Natural logarithm of a positive normal number, within 2 ulp.
MONOGRAPH_HOST_DEVICE float log_f32(float x) {
  const std::uint32_t u = bits_of(x);
  // Mantissa in [sqrt(1/2), sqrt(2)), so that the result near 1 loses nothing.
  const std::int32_t e = static_cast<std::int32_t>((u - 0x3f3504f3u) & 0xff800000u) >> 23;
  const float f = float_of(u - (static_cast<std::uint32_t>(e) << 23)) - 1.0f;
  // ln(1 + f) = 2 atanh(s) = f - s (f - R),  s = f / (2 + f),  R = 2 (s^2/3 + s^4/5 + ...).
  const float s = f / (2.0f + f);
  const float z = s * s;
  float q = fmaf(0x1.de4e16p-3f, z, 0x1.2459e2p-2f);
  q = fmaf(q, z, 0x1.9999fp-2f);
  q = fmaf(q, z, 0x1.555556p-1f);
  const float n = static_cast<float>(e);
  const float tail = fmaf(n, exp_constants::kLn2Low, -(s * (f - z * q)));
  return fmaf(n, exp_constants::kLn2High, f + tail);
}

/// x / (1 + e^-x). (arXiv:1702.03118)
MONOGRAPH_HOST_DEVICE float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }

/// The sum of 16 lanes by a fixed tree (8 + 8, 4 + 4, 2 + 2, 1 + 1). Every horizontal sum of the project ends here;
/// element e of a longer row belongs to lane e mod 16 and is added in ascending order. Overwrites `lanes`.
MONOGRAPH_HOST_DEVICE float sum_lanes(float lanes[16]) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

}  // namespace monograph
