// The GPU's sampler draws what the CPU's does from the same logits: 1,000 settings among mixed neighbours. (issue:
// Fidelity)
#include <gtest/gtest.h>

#include <cstring>

#include "tests/cuda/support/twins.h"

namespace monograph {
namespace {

using test::Held;
using test::Row;
using test::Step;

constexpr int kRows = 25, kMaxLen = 64;

InputShape shape() {
  InputShape s;
  s.max_tokens = 32;
  s.max_rows = kRows;
  s.table_width = 1;
  s.max_seqs = kRows;
  s.max_seq_len = kMaxLen;
  return s;
}

/// One backend with everything a step of sampling needs.
class Sampler {
 public:
  Sampler(const std::string& device, int width)
      : backend_(test::backend_of(device)), step_(backend_, shape()), width_(width) {
    WorkspaceShape workspace;
    workspace.max_tokens = 32;
    workspace.max_rows = kRows;
    workspace.model_dim = workspace.head_dim = 64;
    workspace.n_heads = workspace.n_kv_heads = 1;
    workspace.ffn_dim = 64;
    workspace.vocab_size = width;
    backend_.ops->reserve(workspace);
    out_ = backend_.device->allocate_host(sizeof(SampledRow) * kRows);
  }

  std::vector<SampledRow> sample(const std::vector<Row>& rows, const std::vector<float>& logits,
                                 const std::vector<std::vector<std::int32_t>>& past, int n_vocab) {
    for (std::size_t r = 0; r < rows.size(); ++r)
      backend_.device->copy_to_device(step_.history(static_cast<int>(r)), past[r].data(),
                                      static_cast<std::int64_t>(past[r].size() * 4));
    const Held held(backend_, logits);
    const StepInputs& in = step_.run(rows, kRows);
    backend_.ops->sample(out_.as<SampledRow>(), held.view<float, 2>({kRows, width_}), n_vocab, in);
    backend_.device->synchronize();
    EXPECT_EQ(std::memcmp(held.get<float>().data(), logits.data(), logits.size() * 4), 0) << "the logits were changed";
    return {out_.as<SampledRow>(), out_.as<SampledRow>() + rows.size()};
  }

 private:
  Backend backend_;
  Step step_;
  int width_;
  Buffer out_;
};

class Settings {
 public:
  Settings(int width, int n_vocab) : width_(width), n_vocab_(n_vocab) {}

  std::vector<float> logits() {
    auto values = test::random_floats(random_, static_cast<std::size_t>(kRows) * width_, 2.0f);
    // Ties, a few far ahead, and none at all: what real heads give and what they do not.
    for (int row = 0; row < kRows; ++row) {
      float* z = values.data() + static_cast<std::ptrdiff_t>(row) * width_;
      if (row % 5 == 1)
        for (int i = 0; i < width_; ++i) z[i] = static_cast<float>(static_cast<int>(z[i]));
      if (row % 5 == 2) z[pick(n_vocab_)] += 15.0f;
      if (row % 5 == 3) std::fill_n(z, width_, 1.5f);
      if (row == 4) z[pick(n_vocab_)] = std::nanf("");  // SA15
    }
    return values;
  }

  Row row(int r, int n_past) {
    Row row;
    row.n_tokens = 1;
    row.prefix = n_past;
    row.ids = {token()};
    row.table = {r + 1};
    SlotSampling& s = row.sampling;
    s.temperature = one_of({0.0f, 1e-4f, 1e-7f, 0.5f, 1.0f, 1.0f, 3.0f});  // SA01, SA11
    s.top_p = one_of({1.0f, 1.0f, 0.9f, 0.5f, 1e-4f});
    s.top_k = static_cast<int>(one_of({0.0f, 0.0f, 1.0f, 5.0f, 40.0f, 4000.0f}));
    s.min_p = one_of({0.0f, 0.0f, 0.05f, 0.5f});
    s.repetition_penalty = one_of({1.0f, 1.0f, 0.7f, 1.3f, 1e-30f, 1e30f});  // SA04, SA17
    s.presence_penalty = one_of({0.0f, 0.0f, -2.0f, 1.5f});
    s.frequency_penalty = one_of({0.0f, 0.0f, -0.5f, 2.0f});
    s.samples = pick(12) > 0;
    s.seed = random_();
    s.history_row = r;
    s.prompt_len = static_cast<int>(pick(n_past + 1));
    s.n_logprobs = static_cast<int>(pick(kMaxLogprobs + 2)) - 1;
    if (pick(3) == 0)
      for (unsigned i = pick(40); i > 0; --i) row.bias.push_back({token(), one_of({-100.0f, -3.0f, 2.5f, 100.0f})});
    if (pick(3) == 0)
      for (unsigned i = pick(20); i > 0; --i) row.banned.push_back(token());
    return row;
  }

  std::vector<std::int32_t> past() {
    std::vector<std::int32_t> ids(pick(kMaxLen - 2));
    for (auto& id : ids) id = token();
    return ids;
  }

 private:
  unsigned pick(int n) { return static_cast<unsigned>(random_() % static_cast<std::uint64_t>(n)); }
  /// Few different ones, so that penalties meet them again; some outside of the vocabulary.
  std::int32_t token() {
    return pick(20) == 0 ? static_cast<std::int32_t>(n_vocab_ + pick(9)) - 4 : static_cast<std::int32_t>(pick(60));
  }
  float one_of(std::initializer_list<float> values) { return values.begin()[pick(static_cast<int>(values.size()))]; }

  std::mt19937_64 random_{test::seed()};
  int width_, n_vocab_;
};

void expect_same(const SampledRow& got, const SampledRow& wanted, const std::string& where) {
  EXPECT_EQ(got.token, wanted.token) << where;
  if (wanted.token < 0) return;
  EXPECT_EQ(std::memcmp(&got.logprob, &wanted.logprob, sizeof got.logprob), 0)
      << where << ": " << got.logprob << " for " << wanted.logprob;
  ASSERT_EQ(got.n_top, wanted.n_top) << where;
  for (int k = 0; k < wanted.n_top; ++k) {
    EXPECT_EQ(got.top_ids[k], wanted.top_ids[k]) << where;
    EXPECT_EQ(std::memcmp(&got.top_logprobs[k], &wanted.top_logprobs[k], 4), 0) << where;
  }
}

void compare(const std::string& device, int width, int n_vocab, int n_rounds) {
  Sampler cpu("cpu", width), gpu(device, width);
  Settings settings(width, n_vocab);
  int n_settings = 0;
  for (int round = 0; round < n_rounds; ++round) {
    std::vector<std::vector<std::int32_t>> past;
    std::vector<Row> rows;
    for (int r = 0; r < kRows; ++r) {
      past.push_back(settings.past());
      rows.push_back(settings.row(r, static_cast<int>(past.back().size())));
    }
    const auto logits = settings.logits();
    const auto wanted = cpu.sample(rows, logits, past, n_vocab), got = gpu.sample(rows, logits, past, n_vocab);
    for (std::size_t r = 0; r < rows.size(); ++r, ++n_settings)
      expect_same(got[r], wanted[r], "round " + std::to_string(round) + ", row " + std::to_string(r));
  }
  std::printf("%d settings over %d ids\n", n_settings, n_vocab);
}

class Sampling : public ::testing::TestWithParam<const char*> {};

// SA15: one row of each round holds a NaN, and ends alone.
TEST_P(Sampling, SmallVocabulary) { compare(GetParam(), 320, 300, 40); }
TEST_P(Sampling, VocabularyOfQwen3) { compare(GetParam(), 151936, 151669, 40); }

INSTANTIATE_TEST_SUITE_P(EachPath, Sampling, ::testing::Values("cuda", "cuda_sm80"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace monograph
