// The sampling rule against a direct reading of ops/sampling.h, through the op. Rows of the bug log carry their ids.
#include "ops/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "tests/ops/support/step.h"

namespace monograph {
namespace {

using test::Row;
using test::Step;

constexpr int kWidth = 320, kVocab = 300;  // 20 rows of the head are padding
constexpr int kRows = 6, kMaxLen = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

InputShape shape() {
  InputShape s;
  s.max_tokens = 32;
  s.max_rows = kRows;
  s.table_width = 1;
  s.max_seqs = kRows;
  s.max_seq_len = kMaxLen;
  return s;
}

/// Rules 1 to 7 in the plainest words: sort everything, keep sets.
std::int32_t expected_token(std::vector<float> z, const Row& row, const std::vector<std::int32_t>& history,
                            int kv_len) {
  const SlotSampling& s = row.sampling;
  z.resize(kVocab);
  for (float v : z)
    if (std::isnan(v) || v == kInfinity) return -2;
  for (const BiasEntry& b : row.bias)
    if (b.id >= 0 && b.id < kVocab) z[b.id] += b.value;
  for (std::int32_t id : row.banned)
    if (id >= 0 && id < kVocab) z[id] = -kInfinity;
  std::map<std::int32_t, int> seen, output;
  for (std::size_t i = 0; i < history.size(); ++i) {
    ++seen[history[i]];
    if (static_cast<int>(i) >= s.prompt_len) ++output[history[i]];
  }
  for (auto [id, n] : seen) {
    if (id < 0 || id >= kVocab) continue;
    z[id] = z[id] > 0 ? z[id] / s.repetition_penalty : z[id] * s.repetition_penalty;
    if (output[id] > 0) z[id] = (z[id] - s.presence_penalty) - s.frequency_penalty * static_cast<float>(output[id]);
  }
  std::vector<std::int32_t> order(kVocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return z[a] > z[b]; });
  if (s.temperature == 0) return order[0];
  const float max = z[order[0]];
  std::vector<std::uint64_t> q(kVocab);
  std::vector<float> p(kVocab);
  for (int id = 0; id < kVocab; ++id) {
    p[id] = z[id] == max ? 1.0f : exp_f32((z[id] - max) / s.temperature);
    q[id] = static_cast<std::uint64_t>(p[id] * 1099511627776.0f);
  }
  if (s.top_k > 0 && s.top_k < kVocab) order.resize(s.top_k);
  if (s.top_p < 1) {
    std::uint64_t total = 0, sum = 0;
    for (int id : order) total += q[id];
    const auto target = std::max<unsigned __int128>(
        1, static_cast<unsigned __int128>(total) * static_cast<std::uint64_t>(s.top_p * 4294967296.0f) >> 32);
    std::size_t n = 0;
    while (n < order.size() && sum < target) sum += q[order[n++]];
    order.resize(n);
  }
  std::erase_if(order, [&](int id) { return p[id] < s.min_p; });
  std::sort(order.begin(), order.end());
  std::uint64_t total = 0, sum = 0;
  for (int id : order) total += q[id];
  const auto r = random_bits(s.seed, static_cast<std::uint64_t>(kv_len));
  const auto target = static_cast<std::uint64_t>(static_cast<unsigned __int128>(r) * total >> 64);
  for (int id : order)
    if ((sum += q[id]) > target) return id;
  return order[0];
}

class Sampling : public ::testing::Test {
 protected:
  /// Samples one step; history of a row is what was there (`past`) plus the row's ids.
  std::vector<SampledRow> sample(std::vector<Row> rows, const std::vector<std::vector<float>>& logits,
                                 const std::vector<std::vector<std::int32_t>>& past = {}) {
    std::vector<float> flat(std::size_t{kRows} * kWidth, 0.0f);
    int n_tokens = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::copy(logits[r].begin(), logits[r].end(), flat.begin() + static_cast<std::ptrdiff_t>(r) * kWidth);
      rows[r].table = {static_cast<std::int32_t>(r + 1)};
      rows[r].sampling.history_row = static_cast<std::int32_t>(kRows - 1 - r);
      if (rows[r].ids.empty()) rows[r].ids.assign(rows[r].n_tokens, 0);
      if (r < past.size()) {
        std::copy(past[r].begin(), past[r].end(), step.history(rows[r].sampling.history_row));
        rows[r].prefix = static_cast<int>(past[r].size());
      }
      n_tokens += rows[r].n_tokens;
    }
    const std::vector<float> before = flat;
    const StepInputs& in = step.run(rows, n_tokens);
    std::vector<SampledRow> out(kRows);
    for (SampledRow& row : out) row.token = 12345;
    backend.ops->sample(out.data(), {flat.data(), {kRows, kWidth}}, kVocab, in);
    EXPECT_EQ(std::memcmp(flat.data(), before.data(), flat.size() * 4), 0) << "the logits were changed";
    return out;
  }
  static Row plain(float temperature, std::uint64_t seed = 1) {
    Row row;
    row.sampling.samples = 1;
    row.sampling.temperature = temperature;
    row.sampling.seed = seed;
    return row;
  }

  Backend backend = test::cpu_backend();
  Step step{backend, shape()};
  std::mt19937_64 random{test::seed()};
};

TEST_F(Sampling, FollowsTheRuleForRandomSettingsAmongRandomNeighbours) {
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  const auto uniform = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  for (int round = 0; round < 400; ++round) {
    std::vector<Row> rows;
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<std::int32_t>> past;
    for (int r = 0; r < kRows; ++r) {
      Row row = plain(chance(20) ? 0.0f : uniform(0.05f, 3.0f), random());
      SlotSampling& s = row.sampling;
      row.n_tokens = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < row.n_tokens; ++i) row.ids.push_back(static_cast<std::int32_t>(random() % kWidth));
      std::vector<std::int32_t> ids(random() % 40);
      for (auto& id : ids) id = static_cast<std::int32_t>(random() % 30);
      if (chance(40)) s.top_k = 1 + static_cast<int>(random() % 60);
      if (chance(40)) s.top_p = uniform(0.0001f, 1.0f);
      if (chance(40)) s.min_p = uniform(0.0f, 0.5f);
      if (chance(40)) s.repetition_penalty = uniform(0.5f, 2.0f);
      if (chance(40)) s.presence_penalty = uniform(-2, 2);
      if (chance(40)) s.frequency_penalty = uniform(-2, 2);
      s.prompt_len = static_cast<int>(random() % (ids.size() + 1));
      while (chance(50)) row.bias.push_back({static_cast<std::int32_t>(random() % 340) - 10, uniform(-5, 5)});
      while (chance(60)) row.banned.push_back(static_cast<std::int32_t>(random() % 340) - 10);
      auto z = test::random_floats(random, kWidth, 2.0f);
      if (chance(50))
        for (float& v : z) v = std::round(v);  // many ties
      if (chance(5)) z[random() % kVocab] = chance(50) ? std::nanf("") : kInfinity;
      rows.push_back(row);
      logits.push_back(z);
      past.push_back(ids);
    }
    const auto out = sample(rows, logits, past);
    for (int r = 0; r < kRows; ++r) {
      auto history = past[r];
      history.insert(history.end(), rows[r].ids.begin(), rows[r].ids.end());
      const int kv_len = static_cast<int>(history.size());
      EXPECT_EQ(out[r].token, expected_token(logits[r], rows[r], history, kv_len)) << "round " << round << " row " << r;
    }
  }
}

TEST_F(Sampling, SA01_TinyTemperaturesGiveTheBestTokenOrAValidOne) {
  auto z = test::random_floats(random, kWidth, 4.0f);
  const auto best = static_cast<std::int32_t>(std::max_element(z.begin(), z.begin() + kVocab) - z.begin());
  for (float temperature : {1e-4f, 1e-5f, 1e-7f, 1e-38f, 1e-45f}) {
    for (float top_p : {1.0f, 1e-4f}) {
      Row row = plain(temperature);
      row.sampling.top_p = top_p;
      EXPECT_EQ(sample({row}, {z})[0].token, best) << temperature;
    }
  }
}

TEST_F(Sampling, SA02_TemperatureZeroEqualsTopK1) {
  for (int i = 0; i < 100; ++i) {
    auto z = test::random_floats(random, kWidth, 2.0f);
    if (i % 2)
      for (float& v : z) v = std::round(v);
    Row one = plain(1.5f, random());
    one.sampling.top_k = 1;
    const auto out = sample({plain(0), one}, {z, z});
    EXPECT_EQ(out[0].token, out[1].token);
  }
}

TEST_F(Sampling, SA11_EveryRowKeepsItsOwnSettings) {
  const auto z = test::random_floats(random, kWidth, 0.1f);
  const auto best = static_cast<std::int32_t>(std::max_element(z.begin(), z.begin() + kVocab) - z.begin());
  int different = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto out = sample({plain(2.0f, seed), plain(0), plain(2.0f, seed)}, {z, z, z});
    EXPECT_EQ(out[1].token, best);
    EXPECT_EQ(out[0].token, out[2].token);
    different += out[0].token != best;
  }
  EXPECT_GT(different, 40);
}

TEST_F(Sampling, SA15_NanEndsItsRowOnly) {
  auto good = test::random_floats(random, kWidth), bad = good, padded = good;
  bad[117] = std::nanf("");
  padded[310] = std::nanf("");  // outside the vocabulary: not looked at
  const auto out = sample({plain(0), plain(0), plain(1), plain(1), plain(0)}, {good, bad, bad, good, padded});
  EXPECT_EQ(out[1].token, sampling::kTokenBadLogits);
  EXPECT_EQ(out[2].token, sampling::kTokenBadLogits);
  EXPECT_EQ(out[0].token, sample({plain(0)}, {good})[0].token);
  EXPECT_EQ(out[3].token, sample({plain(1)}, {good})[0].token);
  EXPECT_EQ(out[4].token, out[0].token);
}

TEST_F(Sampling, TK15_PaddingIdsAreNeverChosen) {
  auto z = test::random_floats(random, kWidth);
  z[310] = 100.0f;
  Row row = plain(1);
  row.sampling.n_logprobs = 20;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    row.sampling.seed = seed;
    const auto out = sample({plain(0), row}, {z, z});
    EXPECT_LT(out[0].token, kVocab);
    EXPECT_LT(out[1].token, kVocab);
    for (int i = 0; i < out[1].n_top; ++i) EXPECT_LT(out[1].top_ids[i], kVocab);
  }
}

TEST_F(Sampling, RowsThatDoNotSampleSayMinusOne) {
  const auto z = test::random_floats(random, kWidth);
  Row chunk = plain(0);
  chunk.sampling.samples = 0;
  const auto out = sample({chunk, plain(0)}, {z, z});
  EXPECT_EQ(out[0].token, -1);
  EXPECT_GE(out[1].token, 0);
  for (int r = 2; r < kRows; ++r) EXPECT_EQ(out[r].token, -1);
}

TEST_F(Sampling, DrawsFollowTheDistribution) {
  std::vector<float> z(kWidth, -30.0f);
  const double p[] = {0.5, 0.25, 0.125, 0.125};
  for (int i = 0; i < 4; ++i) z[i * 50] = static_cast<float>(std::log(p[i]));
  constexpr int kDraws = 4000;
  std::map<int, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[sample({plain(1, static_cast<std::uint64_t>(i))}, {z})[0].token];
  for (int i = 0; i < 4; ++i) {
    const double sigma = std::sqrt(kDraws * p[i] * (1 - p[i]));
    EXPECT_NEAR(counts[i * 50], kDraws * p[i], 5 * sigma);
  }
}

TEST_F(Sampling, TheDrawDependsOnSeedAndPositionOnly) {
  const auto z = test::random_floats(random, kWidth, 0.5f);
  // The same kv length reached as one chunk, as two, or as a decode step.
  Row whole = plain(1, 99), tail = whole, decode = whole;
  whole.n_tokens = 12;
  tail.n_tokens = 5;
  const auto a = sample({whole}, {z}), b = sample({tail}, {z}, {std::vector<std::int32_t>(7)}),
             c = sample({decode}, {z}, {std::vector<std::int32_t>(11)});
  EXPECT_EQ(a[0].token, b[0].token);
  EXPECT_EQ(a[0].token, c[0].token);
  std::map<int, int> tokens;
  for (int n = 1; n < 30; ++n) ++tokens[sample({decode}, {z}, {std::vector<std::int32_t>(n)})[0].token];
  EXPECT_GT(tokens.size(), 10u);
}

TEST_F(Sampling, LogprobsAreTheModelsOwn) {
  auto z = test::random_floats(random, kWidth, 3.0f);
  z[20] = z[40] = 15.0f;  // a tie at the top
  Row row = plain(0.5f);
  row.sampling.n_logprobs = 5;
  row.bias = {{7, 100.0f}};
  const SampledRow out = sample({row}, {z})[0];
  EXPECT_EQ(out.token, 7);
  double sum = 0;
  for (int id = 0; id < kVocab; ++id) sum += std::exp(static_cast<double>(z[id]));
  EXPECT_NEAR(out.logprob, z[7] - std::log(sum), 1e-5);
  ASSERT_EQ(out.n_top, 5);
  EXPECT_EQ(out.top_ids[0], 20);
  EXPECT_EQ(out.top_ids[1], 40);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(out.top_logprobs[i], z[out.top_ids[i]] - std::log(sum), 1e-5);
    EXPECT_GE(z[out.top_ids[std::max(i - 1, 0)]], z[out.top_ids[i]]);
  }
  row.sampling.n_logprobs = 0;
  const SampledRow chosen_only = sample({row}, {z})[0];
  EXPECT_EQ(chosen_only.n_top, 0);
  EXPECT_EQ(chosen_only.logprob, out.logprob);
}

TEST_F(Sampling, EveryTargetAndThreadCountChoosesAlike) {
  std::vector<Row> rows;
  std::vector<std::vector<float>> logits;
  for (int r = 0; r < kRows; ++r) {
    rows.push_back(plain(0.9f, random()));
    rows.back().sampling.top_p = 0.8f;
    rows.back().sampling.n_logprobs = 3;
    logits.push_back(test::random_floats(random, kWidth, 2.0f));
  }
  const auto expected = sample(rows, logits);
  for (const char* target : {"reference", ""}) {
    for (int threads : {1, 3}) {
      Backend other = test::cpu_backend(target, DType::kF32, threads);
      std::vector<float> flat;
      for (const auto& z : logits) flat.insert(flat.end(), z.begin(), z.end());
      std::vector<SampledRow> out(kRows);
      other.ops->sample(out.data(), {flat.data(), {kRows, kWidth}}, kVocab, step.inputs());
      for (int r = 0; r < kRows; ++r) EXPECT_EQ(std::memcmp(&out[r], &expected[r], sizeof(SampledRow)), 0);
    }
  }
}

}  // namespace
}  // namespace monograph
