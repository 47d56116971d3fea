// Each op on the GPU against the same op of the CPU backend in bfloat16. (issue: Fidelity)
//
// Both take the same bfloat16 inputs and sum products that are exact in float32, so before the last rounding they
// differ by float32 sums in another order: at most K 2^-24 of the sum of the products' sizes. Where an op normalises
// its input first, an element may round to the neighbouring bfloat16 on one side: at most 2^-8 of it, independent of
// the others, so six standard deviations are 6 * 2^-8 times the root of the sum of squares. The result is rounded once
// more: 2^-8.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/support/layer.h"

namespace monograph {
namespace {

using test::Held;
using test::kEps;
using test::kMaxRows;
using test::kMaxTokens;
using test::kVocab;
using test::kWidth;
using test::layer_inputs;
using test::LayerShape;
using test::random_bf16;
using test::Row;
using test::Step;
using test::Twin;

constexpr LayerShape kShapes[] = {{"smollm2", 576, 1536, 9, 3, 64},
                                  {"qwen3", 1024, 3072, 16, 8, 128},
                                  {"llama", 2048, 512, 32, 8, 64},
                                  {"mha96", 192, 320, 2, 2, 96},
                                  {"wide_heads", 256, 192, 4, 1, 256}};
/// Steps of one row and of several, with and without prefixes: the narrow kernels, the wide ones, and their edges.
std::vector<std::vector<Row>> steps() {
  const auto row = [](int n, int prefix, int first_block) {
    Row r;
    r.n_tokens = n;
    r.prefix = prefix;
    for (int i = 0; i < kWidth; ++i) r.table.push_back(first_block + i);
    r.sampling.samples = 1;
    return r;
  };
  return {{row(1, 0, 1)},
          {row(1, 130, 1)},
          {row(7, 64, 1), row(1, 200, 6), row(8, 0, 11)},
          {row(17, 0, 1)},
          {row(64, 0, 1), row(1, 90, 6)},
          {row(130, 100, 1), row(1, 300, 6), row(40, 64, 11), row(66, 0, 16)}};
}

/// The bound of the head of this file, for K products of about `size` each whose sum is about `value`.
double product_bound(int k, double size, double value, bool normalised) {
  const double sums = 2.0 * k * std::ldexp(1.0, -24) * k * size;
  const double flips = normalised ? 6 * std::ldexp(1.0, -8) * std::sqrt(static_cast<double>(k)) * size : 0;
  return sums + flips + std::ldexp(std::abs(value), -7);
}

void expect_near(const std::vector<bf16>& got, const std::vector<bf16>& wanted, std::size_t n,
                 const std::function<double(double)>& bound, const std::string& what) {
  for (std::size_t i = 0; i < n; ++i) {
    const double a = to_float(got[i]), b = to_float(wanted[i]);
    ASSERT_TRUE(std::isfinite(a)) << what << " " << i;
    ASSERT_LE(std::abs(a - b), bound(b)) << what << " " << i << ": " << a << " for " << b;
  }
}

class GpuOps : public ::testing::TestWithParam<LayerShape> {
 protected:
  const LayerShape s_ = GetParam();
  Twin cpu_{"cpu", s_}, gpu_{"cuda", s_};

  /// Runs `op` on both backends over random rows and compares its output, [n_tokens, width].
  template <typename Op>
  void compare(const std::vector<Row>& rows, int in_width, float in_scale, int width, const Op& op,
               const std::function<double(double)>& bound, const std::string& what) {
    int n = 0;
    for (const Row& row : rows) n += row.n_tokens;
    std::mt19937_64 random(9);
    const auto input = random_bf16(random, static_cast<std::size_t>(n) * in_width, in_scale);
    const auto output = random_bf16(random, static_cast<std::size_t>(n) * width, 1.0f);
    std::vector<bf16> results[2];
    for (Twin* twin : {&cpu_, &gpu_}) {
      const Held x(twin->backend(), input), y(twin->backend(), output);
      const StepInputs& in = twin->run(rows, n);
      op(*twin, in, x, y, n);
      results[twin == &gpu_] = y.get<bf16>();
    }
    expect_near(results[1], results[0], results[0].size(), bound, what + ", " + std::to_string(n) + " tokens");
  }
};

TEST_P(GpuOps, EmbedIsExact) {
  for (const auto& rows : steps())
    compare(
        rows, 1, 1.0f, s_.model_dim,
        [&](Twin& t, const StepInputs& in, const Held&, const Held& y, int n) {
          t.ops().embed(y.tensor<2>({n, s_.model_dim}), *t.embedding, {}, in);
        },
        [](double) { return 0.0; }, "embed");
}

TEST_P(GpuOps, TakeRowsIsExact) {
  const int width = s_.heads * s_.head_dim;
  for (const auto& rows : steps()) {
    int n = 0;
    for (const Row& row : rows) n += row.n_tokens;
    std::mt19937_64 random(6);
    const auto x = random_bf16(random, static_cast<std::size_t>(n) * s_.model_dim, 1.0f),
               q = random_bf16(random, static_cast<std::size_t>(n) * width, 1.0f),
               rest = random_bf16(random, static_cast<std::size_t>(kMaxRows) * (s_.model_dim + width), 1.0f);
    std::vector<bf16> taken[2];
    for (Twin* twin : {&cpu_, &gpu_}) {
      const Held from_x(twin->backend(), x), from_q(twin->backend(), q);
      const auto middle = rest.begin() + std::ptrdiff_t{kMaxRows} * s_.model_dim;
      const Held x_out(twin->backend(), std::vector(rest.begin(), middle)),
          q_out(twin->backend(), std::vector(middle, rest.end()));
      const StepInputs& in = twin->run(rows, n);
      twin->ops().take_rows(x_out.tensor<2>({kMaxRows, s_.model_dim}),
                            q_out.tensor<3>({kMaxRows, s_.heads, s_.head_dim}), from_x.tensor<2>({n, s_.model_dim}),
                            from_q.tensor<3>({n, s_.heads, s_.head_dim}), in);
      auto& all = taken[twin == &gpu_];
      all = x_out.get<bf16>();
      for (bf16 value : q_out.get<bf16>()) all.push_back(value);
    }
    for (std::size_t i = 0; i < taken[0].size(); ++i) ASSERT_EQ(taken[1][i].bits, taken[0][i].bits) << i << ", " << n;
  }
}

TEST_P(GpuOps, ProjectQkvGivesQAndTheBlocks) {
  const int q_width = s_.heads * s_.head_dim;
  for (const bool norms : {false, true})
    for (const auto& rows : steps()) {
      // q, k and v are about 1: unit weights over a normalised row, or normalised again; the rotation mixes pairs.
      const double size = 1.0 / std::sqrt(static_cast<double>(s_.model_dim));
      const auto bound = [&](double value) {
        return 2 * product_bound(s_.model_dim, size, std::abs(value) + 0.5, true);
      };
      compare(
          rows, s_.model_dim, 1.5f, q_width,
          [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
            t.ops().project_qkv(y.tensor<3>({n, s_.heads, s_.head_dim}), t.kv(), x.tensor<2>({n, s_.model_dim}),
                                t.qkv_weights(norms, !norms), t.rope(), kEps, in);
          },
          bound, "q");
      expect_near(gpu_.k->get<bf16>(), cpu_.k->get<bf16>(), cpu_.k->get<bf16>().size(), bound, "k");
      expect_near(gpu_.v->get<bf16>(), cpu_.v->get<bf16>(), cpu_.v->get<bf16>().size(), bound, "v");
    }
}

TEST_P(GpuOps, AttendIsWithinTheRoundingOfProbabilities) {
  const int width = s_.heads * s_.head_dim;
  for (const auto& rows : steps())
    // Probabilities sum to 1 and are rounded to bfloat16 (2^-9 each) before they weigh values of about 1, on either
    // side.
    compare(
        rows, width, 1.0f, width,
        [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
          const std::array<int, 3> shape{n, s_.heads, s_.head_dim};
          t.ops().attend(y.tensor<3>(shape), x.tensor<3>(shape), t.kv(), 1.0f / std::sqrt(float(s_.head_dim)), in);
        },
        [](double value) { return 6 * std::ldexp(1.0, -9) + std::ldexp(std::abs(value), -6); }, "attend");
}

TEST_P(GpuOps, AddProject) {
  const int k = s_.heads * s_.head_dim;
  for (const auto& rows : steps())
    compare(
        rows, k, 1.0f, s_.model_dim,
        [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
          t.ops().add_project(y.tensor<2>({n, s_.model_dim}), x.tensor<2>({n, k}), *t.out, {}, in);
        },
        [&](double value) { return product_bound(k, 1.0 / std::sqrt(double(k)), std::abs(value) + 1, false); },
        "add_project");
}

TEST_P(GpuOps, GatedUp) {
  for (const auto& rows : steps())
    // A product of two sums of about 1: each one's error is carried by the other, which stays below 6.
    compare(
        rows, s_.model_dim, 1.5f, s_.ffn_dim,
        [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
          t.ops().gated_up(y.tensor<2>({n, s_.ffn_dim}), x.tensor<2>({n, s_.model_dim}),
                           Twin::view(t.norm, s_.model_dim), kEps, *t.gate_up, in);
        },
        [&](double value) {
          return 6 * product_bound(s_.model_dim, 1.0 / std::sqrt(double(s_.model_dim)), value / 3, true);
        },
        "gated_up");
}

TEST_P(GpuOps, HeadLogits) {
  for (const auto& rows : steps()) {
    int n = 0;
    for (const Row& row : rows) n += row.n_tokens;
    std::mt19937_64 random(4);
    const auto input = random_bf16(random, static_cast<std::size_t>(n) * s_.model_dim, 1.5f);
    std::vector<float> results[2];
    for (Twin* twin : {&cpu_, &gpu_}) {
      const Held x(twin->backend(), input),
          logits(twin->backend(), std::vector<float>(std::size_t{kMaxRows} * kVocab, 7.0f));
      const StepInputs& in = twin->run(rows, n);
      twin->ops().head_logits(logits.view<float, 2>({kMaxRows, kVocab}), x.tensor<2>({n, s_.model_dim}),
                              Twin::view(twin->norm, s_.model_dim), kEps, *twin->embedding, in);
      results[twin == &gpu_] = logits.get<float>();
    }
    const double size = 1.0 / std::sqrt(static_cast<double>(s_.model_dim));
    for (std::size_t i = 0; i < results[0].size(); ++i)
      ASSERT_LE(std::abs(results[1][i] - results[0][i]), product_bound(s_.model_dim, size, 0, true))
          << i / kVocab << ", " << n;
    for (std::size_t i = rows.size() * kVocab; i < results[1].size(); ++i)
      ASSERT_EQ(results[1][i], 7.0f) << "other rows";
  }
}

// The packed matrix holds every file type's values rounded to bfloat16, in the order of the role.
TEST(GpuPack, EveryTypeIsRoundedOnce) {
  Backend backend = test::backend_of("cuda");
  backend.ops->reserve({kMaxTokens, kMaxRows, 512, 512, 1, 1, 64, kVocab});
  Step step(backend, layer_inputs());
  std::mt19937_64 random(test::seed());
  constexpr int kRows = 300, kCols = 512;
  for (DType dtype : test::kWeightTypes) {
    const auto bytes = test::random_blocks(random, dtype, kRows, kCols);
    const auto expected = test::dequantised(dtype, bytes, kRows, kCols);
    MatrixPart part{dtype, kRows, kCols, bytes, {}};
    for (int r = 0; r < kRows; ++r) part.row_order.push_back((r * 7 + 3) % kRows);
    const auto packed = backend.ops->pack({&part, 1}, MatrixRole::kEmbedding);
    Row row;
    row.n_tokens = kRows;
    row.table = {1, 2, 3, 4, 5};
    for (int r = 0; r < kRows; ++r) row.ids.push_back(r);
    const StepInputs& in = step.run({row}, kRows);
    const Held x(backend, std::int64_t{2} * kRows * kCols);
    backend.ops->embed(x.tensor<2>({kRows, kCols}), *packed, {}, in);
    const auto got = x.get<bf16>();
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c)
        ASSERT_EQ(got[static_cast<std::size_t>(r) * kCols + c].bits,
                  to_bf16(expected[static_cast<std::size_t>(part.row_order[r]) * kCols + c]).bits)
            << to_string(dtype) << " row " << r << " column " << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuOps, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monograph
