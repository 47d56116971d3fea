#include "base/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace monograph {
namespace {

/// Distance from the exact value in units of the float's last place there.
double ulps(float got, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(Exp, WithinTwoUlpEverywhere) {
  double worst = 0;
  for (std::uint32_t u = 0; u < 0x42b20000u; u += 997) {  // |x| < 89
    for (float x : {float_of(u), -float_of(u)})
      if (x < 88.7f) worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
  }
  for (float x = -104.0f; x < -80.0f; x += 0.0007f)
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
  EXPECT_LE(worst, 2.0);
}

TEST(Exp, Edges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-kInfinity), 0.0f);
  EXPECT_EQ(exp_f32(-1e30f), 0.0f);
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(exp_f32(88.8f), kInfinity);
  EXPECT_LT(exp_f32(88.7f), kInfinity);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_f32(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(Log, WithinTwoUlpOnNormalNumbers) {
  double worst = 0;
  for (std::uint32_t u = 0x00800000u; u < 0x7f800000u; u += 9973)
    worst = std::max(worst, ulps(log_f32(float_of(u)), std::log(static_cast<double>(float_of(u)))));
  for (std::uint32_t u = 0x3f700000u; u < 0x3f900000u; ++u)  // around 1, where a result loses its digits first
    worst = std::max(worst, ulps(log_f32(float_of(u)), std::log(static_cast<double>(float_of(u)))));
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(log_f32(1.0f), 0.0f);
}

TEST(Silu, FollowsItsFormula) {
  for (float x = -30.0f; x < 30.0f; x += 0.013f)
    EXPECT_LE(ulps(silu_f32(x), x / (1.0 + std::exp(-static_cast<double>(x)))), 4.0) << x;
  EXPECT_EQ(silu_f32(-200.0f), 0.0f);
  EXPECT_EQ(silu_f32(200.0f), 200.0f);
}

TEST(SumLanes, IsTheFixedTree) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = std::ldexp(1.0f, i);
  EXPECT_EQ(sum_lanes(lanes), 65535.0f);
  // 2^24 + 1 is lost unless the ones meet first: lanes 0 and 8 do, 0 and 1 do not.
  float order[16] = {0x1p24f, 1.0f, 0, 0, 0, 0, 0, 0, 0, 1.0f};
  EXPECT_EQ(sum_lanes(order), 0x1p24f + 2.0f);
}

TEST(Philox, KnownAnswers) {
  // The published vectors of the generator's authors.
  const auto zero = philox({{0, 0, 0, 0}}, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const std::uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox({{f, f, f, f}}, f, f).word[0], 0x408f276du);
  EXPECT_EQ(philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u).word[3],
            0x24126ea1u);
}

TEST(MultiplyHigh, EqualsTheWideProduct) {
  for (std::uint64_t i = 1; i < 2000; ++i) {
    const std::uint64_t a = random_bits(7, i), b = random_bits(8, i) >> (i % 64);
    EXPECT_EQ(multiply_high(a, b), static_cast<std::uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64));
  }
}

}  // namespace
}  // namespace monograph
