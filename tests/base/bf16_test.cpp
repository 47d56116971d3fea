#include "base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace monograph {
namespace {

TEST(Bf16, RoundTripOfEveryPattern) {
  for (int bits = 0; bits < 65536; ++bits) {
    const bf16 x{static_cast<std::uint16_t>(bits)};
    const float value = to_float(x);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(value))));
    else
      EXPECT_EQ(to_bf16(value).bits, bits);
  }
}

TEST(Bf16, TiesGoToEven) {
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f).bits, to_bf16(1.0f).bits);
  EXPECT_EQ(to_bf16(1.0f + 0x3p-8f).bits, to_bf16(1.0f + 0x1p-6f).bits);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(F16, KnownValues) {
  EXPECT_EQ(to_float(f16{0x3c00}), 1.0f);
  EXPECT_EQ(to_float(f16{0xc000}), -2.0f);
  EXPECT_EQ(to_float(f16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(f16{0x03ff}), 1023 * 0x1p-24f);
  EXPECT_EQ(to_float(f16{0x7bff}), 65504.0f);
  EXPECT_EQ(to_float(f16{0x7c00}), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(to_float(f16{0x7e00})));
  EXPECT_TRUE(std::signbit(to_float(f16{0x8000})));
}

}  // namespace
}  // namespace monograph
