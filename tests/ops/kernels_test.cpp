// Every SIMD target that this CPU has gives the plain loops' bits, primitive by primitive.
#include "ops/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/math.h"
#include "monograph/error.h"
#include "tests/ops/support/step.h"

namespace monograph::cpu {
namespace {

using test::random_floats;

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> out;
  for (float v : values) out.push_back(std::isnan(v) ? 0x7fc00000u : bits_of(v));  // any NaN is NaN
  return out;
}

/// Values that break shortcuts, then random ones.
std::vector<float> interesting(std::mt19937_64& random, std::size_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,    -0.0f,    1.0f,     -1.0f,    kInfinity, -kInfinity, std::nanf(""),
                               88.7f,   88.8f,    -87.4f,   -103.97f, -104.0f,   1e-45f,     -1e-38f,
                               3.4e38f, -3.4e38f, 0.34657f, -0.35f,   0x1p-126f, 0x1.fp-127f};
  for (int i = 0; values.size() < n; ++i)
    values.push_back(i % 3 == 0 ? float_of(static_cast<std::uint32_t>(random()))
                                : std::uniform_real_distribution<float>(-110, 95)(random));
  return values;
}

class EachTarget : public ::testing::TestWithParam<std::string> {
 protected:
  const Kernels& simd = find_kernels(GetParam());
  const Kernels& plain = reference_kernels();
  std::mt19937_64 random{test::seed()};
  Scratch scratch, plain_scratch;
  WeightMemory memory;
};
std::vector<std::string> simd_targets() {
  std::vector<std::string> names = kernel_targets();
  if (names.size() > 1) names.pop_back();  // the plain loops need no comparison with themselves
  return names;
}
INSTANTIATE_TEST_SUITE_P(Targets, EachTarget, ::testing::ValuesIn(simd_targets()),
                         [](const auto& info) { return info.param; });

TEST_P(EachTarget, Elementwise) {
  for (int n : {1, 7, 16, 33, 5000}) {
    const auto x = interesting(random, n), y = interesting(random, n);
    std::vector<float> a(n), b(n);
    simd.exp(a.data(), x.data(), n);
    plain.exp(b.data(), x.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << "exp";
    simd.silu_multiply(a.data(), x.data(), y.data(), n);
    plain.silu_multiply(b.data(), x.data(), y.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << "silu_multiply";
    a = b = x;
    simd.add(a.data(), y.data(), n);
    plain.add(b.data(), y.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << "add";
    a = b = x;
    simd.round_to_bf16(a.data(), n);
    plain.round_to_bf16(b.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << "round_to_bf16";
    std::vector<bf16> narrow_a(n), narrow_b(n);
    simd.to_bf16(narrow_a.data(), x.data(), n);
    plain.to_bf16(narrow_b.data(), x.data(), n);
    for (int i = 0; i < n; ++i) EXPECT_EQ(narrow_a[i].bits, narrow_b[i].bits) << x[i];
    simd.to_f32(a.data(), narrow_a.data(), n);
    plain.to_f32(b.data(), narrow_b.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << "to_f32";
    simd.probabilities(a.data(), x.data(), n, 88.7f, 0.7f);
    plain.probabilities(b.data(), x.data(), n, 88.7f, 0.7f);
    EXPECT_EQ(bits(a), bits(b)) << "probabilities";
  }
}

TEST_P(EachTarget, EveryExponentOfExp) {
  std::vector<float> x, a, b;
  for (std::uint32_t u = 0; u < 0xffff0000u; u += 65521u / 16) x.push_back(float_of(u));
  a.resize(x.size());
  b.resize(x.size());
  simd.exp(a.data(), x.data(), static_cast<int>(x.size()));
  plain.exp(b.data(), x.data(), static_cast<int>(x.size()));
  EXPECT_EQ(bits(a), bits(b));
}

TEST_P(EachTarget, NormAndRotate) {
  for (int n : {1, 5, 16, 40, 64, 576, 1000}) {
    const auto x = random_floats(random, n, 3.0f), w = random_floats(random, n);
    std::vector<float> a(n), b(n);
    const float scale = plain.rms_scale(x.data(), n, 1e-6f);
    EXPECT_EQ(simd.rms_scale(x.data(), n, 1e-6f), scale) << n;
    simd.scale(a.data(), x.data(), scale, w.data(), n);
    plain.scale(b.data(), x.data(), scale, w.data(), n);
    EXPECT_EQ(bits(a), bits(b)) << n;
    if (n % 2) continue;
    a = b = x;
    simd.rotate(a.data(), w.data(), w.data() + n / 2, n / 2);
    plain.rotate(b.data(), w.data(), w.data() + n / 2, n / 2);
    EXPECT_EQ(bits(a), bits(b)) << n;
  }
}

TEST_P(EachTarget, Maximum) {
  for (int n : {1, 3, 16, 50, 1000}) {
    for (int round = 0; round < 20; ++round) {
      auto x = random_floats(random, n);
      for (float& v : x) v = std::round(v * 4) / 4;  // ties
      if (round == 7) std::fill(x.begin(), x.end(), -std::numeric_limits<float>::infinity());
      const bool bad = round % 5 == 3;
      if (bad) x[random() % n] = round == 3 ? std::nanf("") : std::numeric_limits<float>::infinity();
      const RowMaximum a = simd.maximum(x.data(), n), b = plain.maximum(x.data(), n);
      EXPECT_EQ(a.bad, bad);
      EXPECT_EQ(b.bad, bad);
      if (bad) continue;
      EXPECT_EQ(a.id, b.id);
      EXPECT_EQ(bits_of(a.value), bits_of(b.value));
    }
  }
}

/// Products of every type, stacked from parts of odd heights.
TEST_P(EachTarget, MatmulOfEveryType) {
  for (DType dtype : test::kWeightTypes) {
    const int cols = block_weights(dtype) == 1 ? 531 : 768;
    const auto first = test::random_blocks(random, dtype, 90, cols);
    const DType other = block_weights(dtype) == 1 ? DType::kF32 : DType::kQ8_0;
    const auto second = test::random_blocks(random, other, 21, cols);
    const MatrixPart parts[] = {{dtype, 90, cols, first, {}}, {other, 21, cols, second, {}}};
    const CpuPackedMatrix w(parts, memory, false);
    for (int n_rows : {1, 2, 3, 4, 7, 13, 30}) {
      const auto x = random_floats(random, std::size_t(n_rows) * cols);
      const std::int64_t stride = w.n_panels() * kLanes;
      std::vector<float> a(n_rows * stride), b(n_rows * stride);
      simd.matmul(a.data(), stride, x.data(), cols, n_rows, w, 0, w.n_panels(), scratch);
      plain.matmul(b.data(), stride, x.data(), cols, n_rows, w, 0, w.n_panels(), plain_scratch);
      ASSERT_EQ(bits(a), bits(b)) << to_string(dtype) << ", " << n_rows << " rows";
      // A row of many is the row alone, and a panel of many the panel alone.
      std::vector<float> one(kLanes);
      const int row = static_cast<int>(random() % n_rows), panel = static_cast<int>(random() % w.n_panels());
      simd.matmul(one.data(), kLanes, x.data() + std::int64_t{row} * cols, cols, 1, w, panel, panel + 1, scratch);
      ASSERT_EQ(bits(one),
                bits({a.begin() + row * stride + panel * kLanes, a.begin() + row * stride + (panel + 1) * kLanes}))
          << to_string(dtype);
    }
  }
}

TEST_P(EachTarget, Attention) {
  struct Shape {
    int block_size, n_kv_heads, group, head_dim;
    DType dtype;
  };
  for (const Shape& s : {Shape{64, 2, 3, 64, DType::kF32}, Shape{64, 1, 1, 40, DType::kBF16},
                         Shape{4, 2, 2, 8, DType::kF32}, Shape{16, 1, 7, 128, DType::kBF16}}) {
    const int n_blocks = 1100 / s.block_size + 2;
    const std::size_t size = std::size_t(n_blocks) * s.n_kv_heads * s.block_size * s.head_dim;
    const auto k = random_floats(random, size), v = random_floats(random, size);
    std::vector<bf16> k16(size), v16(size);
    plain.to_bf16(k16.data(), k.data(), static_cast<int>(size));
    plain.to_bf16(v16.data(), v.data(), static_cast<int>(size));
    std::vector<std::int32_t> table(n_blocks - 1);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(table.size() - i);
    const bool f32 = s.dtype == DType::kF32;
    AttentionTile tile;
    tile.kv = {f32 ? (void*)k.data() : (void*)k16.data(),
               f32 ? (void*)v.data() : (void*)v16.data(),
               s.dtype,
               n_blocks,
               s.block_size,
               s.n_kv_heads,
               s.head_dim,
               0};
    tile.table = table.data();
    tile.kv_head = s.n_kv_heads - 1;
    tile.n_heads = s.group;
    tile.scale = 0.125f;
    tile.round_probabilities = !f32;
    for (auto [position, n_tokens] : {std::pair{0, 1}, {0, 17}, {60, 20}, {505, 12}, {1023, 1}, {1020, 5}}) {
      tile.first_position = position;
      tile.n_tokens = n_tokens;
      const std::size_t n = std::size_t(n_tokens) * s.group * s.head_dim;
      auto q = random_floats(random, n);
      q[0] = position == 60 ? std::nanf("") : q[0];  // one head of one token; it must stay there
      std::vector<float> a(n), b(n);
      tile.q = q.data();
      tile.out = a.data();
      simd.attend(tile, scratch);
      tile.out = b.data();
      plain.attend(tile, plain_scratch);
      ASSERT_EQ(bits(a), bits(b)) << "head_dim " << s.head_dim << " position " << position;
      // The last token alone.
      const std::size_t row = std::size_t(s.group) * s.head_dim;
      std::vector<float> one(row);
      AttentionTile last = tile;
      last.first_position = position + n_tokens - 1;
      last.n_tokens = 1;
      last.q = q.data() + n - row;
      last.out = one.data();
      simd.attend(last, scratch);
      ASSERT_EQ(bits(one), bits({a.end() - static_cast<std::ptrdiff_t>(row), a.end()}));
    }
  }
}

TEST(Targets, AnUnknownOneNamesThoseThatAreHere) {
  try {
    find_kernels("avx9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("avx9"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos);
  }
  EXPECT_EQ(kernel_targets().back(), "reference");
}

}  // namespace
}  // namespace monograph::cpu
