// Both paths of kernels on one GPU: the kernels for compute capability 8.0 give the bits of Hopper's, op by op, through
// the lane's graphs and as an engine's answers. (SPEC S-61)
#include <gtest/gtest.h>

#include <cstring>

#include "model/model_files.h"
#include "monograph/engine.h"
#include "tests/cuda/support/families.h"
#include "tests/cuda/support/layer.h"
#include "tests/engine/support/answers.h"

namespace monograph {
namespace {

using test::Held;
using test::kMaxRows;
using test::kMaxTokens;
using test::kVocab;
using test::LayerShape;
using test::Row;
using test::Twin;
using testing::Lane;
using testing::LaneOptions;
using testing::TestSequence;

const std::string kOwn = "cuda", kOlder = "cuda_sm80";

TEST(Paths, TheLogNamesThem) {
  std::string lines;
  const auto log_of = [&](const std::string& name) {
    lines.clear();
    make_backend(testing::named_backend(name), Log([&](LogLevel, std::string_view line) { lines += line; }));
    return lines;
  };
  EXPECT_NE(log_of(kOwn).find("sm_90a kernels"), std::string::npos) << lines << ": this test needs a Hopper GPU";
  EXPECT_NE(log_of(kOlder).find("sm_80 kernels"), std::string::npos) << lines;
}

TEST(Paths, AnUnknownTargetIsRefused) {
  BackendOptions options = testing::named_backend(kOwn);
  options.gpu_target = "sm_70";
  try {
    make_backend(options, Log());
    FAIL() << "took sm_70";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "--gpu-target sm_70: expected sm_80, or nothing for the GPU's own kernels");
  }
}

// Where products sum K in segments, and where they do not; every head size; rows of Qwen3-0.6B and Qwen3-8B.
constexpr LayerShape kShapes[] = {{"tiny", 128, 192, 4, 2, 16},          {"tiny32", 64, 64, 2, 1, 32},
                                  {"smollm2", 576, 1536, 9, 3, 64},      {"mha96", 192, 320, 2, 2, 96},
                                  {"wide_heads", 256, 192, 4, 1, 256},   {"seven_to_one", 896, 1024, 14, 2, 64},
                                  {"qwen3_06b", 1024, 3072, 16, 8, 128}, {"qwen3_8b", 4096, 12288, 32, 8, 128}};

constexpr int kSizes[] = {1,  2,  3,  7,  8,   9,   15,  16,  17,  31,  33,  48,
                          63, 64, 65, 97, 127, 128, 129, 161, 200, 255, 257, 300};

/// `n` tokens in up to four rows, with prefixes; the last of them uneven.
std::vector<Row> rows_of(int n, std::mt19937_64& random) {
  std::vector<Row> rows;
  for (int i = 0; n > 0 && i < kMaxRows; ++i) {
    Row row;
    row.n_tokens = i == kMaxRows - 1 ? n : 1 + static_cast<int>(random() % static_cast<unsigned>(n));
    row.prefix = static_cast<int>(random() % static_cast<unsigned>(321 - row.n_tokens));
    for (int b = 0; b < test::kWidth; ++b) row.table.push_back(1 + i * test::kWidth + b);
    row.sampling.samples = 1;
    n -= row.n_tokens;
    rows.push_back(row);
  }
  return rows;
}

class PathOps : public ::testing::TestWithParam<LayerShape> {
 protected:
  const LayerShape s_ = GetParam();
  Twin own_{kOwn, s_}, older_{kOlder, s_};

  /// Runs `op` on both, with rows of the output past the tokens too: as many bytes from each, and none of them another.
  template <typename Op>
  void compare(int in_width, int out_width, const std::string& what, const Op& op) {
    std::mt19937_64 random(11);
    const auto widest = static_cast<std::size_t>(std::max(in_width, out_width));
    const auto values = test::random_bf16(random, kMaxTokens * widest + 4096, 1.0f);
    const auto some = [&](int rows, int width) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(random() % 4096);
      return std::vector<bf16>(from, from + std::ptrdiff_t{rows} * width);
    };
    for (const int n : kSizes)
      for (const int capacity : {n, kMaxTokens}) {
        const auto rows = rows_of(n, random);
        const auto input = some(capacity, in_width), output = some(capacity, out_width);
        std::vector<bf16> results[2];
        for (Twin* twin : {&own_, &older_}) {
          const Held x(twin->backend(), input), y(twin->backend(), output);
          const StepInputs& in = twin->run(rows, capacity);
          op(*twin, in, x, y, capacity);
          results[twin == &older_] = y.get<bf16>();
        }
        ASSERT_EQ(0, std::memcmp(results[0].data(), results[1].data(), 2 * results[0].size()))
            << what << ", " << n << " tokens, capacity " << capacity;
        ASSERT_NE(0, std::memcmp(results[0].data(), output.data(), 2 * output.size())) << what << " did nothing";
      }
  }
};

TEST_P(PathOps, SameBits) {
  const int e = s_.model_dim, f = s_.ffn_dim, q = s_.heads * s_.head_dim;
  for (const bool norms : {false, true}) {
    compare(e, q, "project_qkv", [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
      t.ops().project_qkv(y.tensor<3>({n, s_.heads, s_.head_dim}), t.kv(), x.tensor<2>({n, e}),
                          t.qkv_weights(norms, !norms), t.rope(), test::kEps, in);
    });
    EXPECT_EQ(0, std::memcmp(own_.k->get<bf16>().data(), older_.k->get<bf16>().data(), 2 * own_.k->get<bf16>().size()));
    EXPECT_EQ(0, std::memcmp(own_.v->get<bf16>().data(), older_.v->get<bf16>().data(), 2 * own_.v->get<bf16>().size()));
  }
  compare(q, q, "attend", [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
    const std::array<int, 3> shape{n, s_.heads, s_.head_dim};
    t.ops().attend(y.tensor<3>(shape), x.tensor<3>(shape), t.kv(), 1.0f / std::sqrt(float(s_.head_dim)), in);
  });
  compare(q, e, "attention's output", [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
    t.ops().add_project(y.tensor<2>({n, e}), x.tensor<2>({n, q}), *t.out, {}, in);
  });
  compare(e, f, "gated_up", [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
    t.ops().gated_up(y.tensor<2>({n, f}), x.tensor<2>({n, e}), Twin::view(t.norm, e), test::kEps, *t.gate_up, in);
  });
  // A norm that x's writer has prepared, on one side, and one that its reader prepares, on the other.
  compare(q, f, "gated_up behind a prepared norm",
          [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
            std::mt19937_64 random(3);
            const Held stream(t.backend(), test::random_bf16(random, static_cast<std::size_t>(n) * e, 1.0f));
            const View<const float, 1> norm = Twin::view(t.norm, e), none{};
            t.ops().add_project(stream.tensor<2>({n, e}), x.tensor<2>({n, q}), *t.out, &t == &own_ ? norm : none, in);
            t.ops().gated_up(y.tensor<2>({n, f}), stream.tensor<2>({n, e}), norm, test::kEps, *t.gate_up, in);
            t.backend().device->synchronize();
          });
  compare(f, e, "down", [&](Twin& t, const StepInputs& in, const Held& x, const Held& y, int n) {
    t.ops().add_project(y.tensor<2>({n, e}), x.tensor<2>({n, f}), *t.down, {}, in);
  });
}

TEST_P(PathOps, SameLogitsAndTokens) {
  std::mt19937_64 random(12);
  for (const int n : kSizes) {
    const auto rows = rows_of(n, random);
    const auto input = test::random_bf16(random, static_cast<std::size_t>(n) * s_.model_dim, 1.0f);
    std::vector<float> logits[2];
    std::vector<std::int32_t> tokens[2];
    for (Twin* twin : {&own_, &older_}) {
      const Held x(twin->backend(), input),
          z(twin->backend(), std::vector<float>(std::size_t{kMaxRows} * kVocab, 7.0f));
      const Buffer out = twin->backend().device->allocate_host(sizeof(SampledRow) * kMaxRows);
      const StepInputs& in = twin->run(rows, n);
      const auto view = z.view<float, 2>({kMaxRows, kVocab});
      twin->ops().head_logits(view, x.tensor<2>({n, s_.model_dim}), Twin::view(twin->norm, s_.model_dim), test::kEps,
                              *twin->embedding, in);
      twin->ops().sample(out.as<SampledRow>(), z.view<const float, 2>({kMaxRows, kVocab}), kVocab, in);
      logits[twin == &older_] = z.get<float>();
      for (std::size_t r = 0; r < rows.size(); ++r) tokens[twin == &older_].push_back(out.as<SampledRow>()[r].token);
    }
    ASSERT_TRUE(testing::same_bits(logits[0], logits[1])) << n;
    ASSERT_EQ(tokens[0], tokens[1]) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PathOps, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });

/// Tiny models of each family, and public shapes with random weights.
struct Subject {
  std::string name;
  LaneOptions options;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const testing::Family& family : testing::families())
    all.push_back({family.name, testing::on(kOwn, family.config)});
  for (const char* name : {"SmolLM2-135M", "Qwen3-0.6B"}) {
    Subject subject{name, testing::on(kOwn, {})};
    std::erase_if(subject.name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
    subject.options.files = open_dummy_model(std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/" + name);
    all.push_back(std::move(subject));
  }
  for (Subject& subject : all) {
    subject.options.runner.prefill_buckets = {16, 64, 144, 256, 1024};
    subject.options.runner.max_seq_len = 2048;
    subject.options.n_blocks = 80;
  }
  return all;
}

class PathLanes : public ::testing::TestWithParam<Subject> {
 protected:
  static LaneOptions older() {
    LaneOptions options = GetParam().options;
    options.device = kOlder;
    return options;
  }
  Lane own_{GetParam().options}, older_{older()};

  void expect_same_step(const std::vector<TestSequence>& sequences, const std::vector<int>& counts, bool prefill) {
    std::vector<StepResult> results;
    for (Lane* lane : {&own_, &older_}) {
      Batch batch;
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        TestSequence s = sequences[i];
        lane->add(batch, s, counts[i], prefill);
      }
      results.push_back(lane->runner().run(batch));
      EXPECT_TRUE(results.back().replayed);
    }
    for (std::size_t row = 0; row < sequences.size(); ++row) {
      EXPECT_EQ(results[0].rows[row].token, results[1].rows[row].token);
      EXPECT_TRUE(testing::same_bits(own_.logits(static_cast<int>(row)), older_.logits(static_cast<int>(row))))
          << "row " << row << " of " << sequences.size() << ", " << counts[row] << " tokens";
      EXPECT_EQ(own_.block_bytes(sequences[row].blocks[0]), older_.block_bytes(sequences[row].blocks[0]));
    }
  }
};

// Prompts of several splits of keys, a chunk on a long prefix, packed prompts, decode steps.
TEST_P(PathLanes, SameLogitsTokensAndBlocks) {
  TestSequence s = own_.sequence(1600, 3, 1);
  for (const int n : {1000, 1, 17, 130, 64, 250, 100, 1, 37}) {
    expect_same_step({s}, {n}, true);
    s.cached += n;
  }
  expect_same_step({own_.sequence(33, 4, 31, 1), own_.sequence(1, 5, 36, 2), own_.sequence(64, 6, 40, 3)}, {33, 1, 64},
                   true);
  TestSequence other = own_.sequence(520, 8, 45, 1);
  expect_same_step({other}, {519}, true);
  other.cached = 519;
  s.tokens.resize(static_cast<std::size_t>(s.cached) + 1, 5);
  for (int step = 0; step < 4; ++step) {
    expect_same_step({s, other}, {1, 1}, false);
    for (TestSequence* each : {&s, &other}) ++each->cached, each->tokens.push_back(7 + step);
  }
}

INSTANTIATE_TEST_SUITE_P(Subjects, PathLanes, ::testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

std::vector<Answer> answers_on(const std::string& gpu_target, const std::vector<Request>& requests) {
  EngineConfig config;
  config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/SmolLM2-135M";
  config.load_format = "dummy";
  config.device = "cuda";
  config.gpu_target = gpu_target;
  config.max_seq_len = 1024;
  config.max_seqs = 16;
  config.chunk_size = 256;
  config.kv_cache_bytes = 256 << 20;
  config.audit = true;
  const auto engine = Engine::load(config);
  std::vector<ResponseStream> streams;
  for (const Request& r : requests) streams.push_back(engine->submit(r));
  std::vector<Answer> answers;
  for (auto& stream : streams) answers.push_back(take_all(stream).at(0));
  return answers;
}

// Greedy and sampled, penalised and biased, with log probabilities, which show the logits' bits; all at once.
TEST(PathEngines, SameAnswers) {
  std::vector<Request> requests;
  std::mt19937 random(31);
  for (int i = 0; i < 12; ++i) {
    Ids prompt(1 + random() % 700);
    for (auto& id : prompt) id = static_cast<TokenId>(random() % 49152);
    Request r = of(std::move(prompt), 30);
    SamplingParams& s = r.sampling;
    s.seed = 100 + static_cast<unsigned>(i);
    s.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    if (i % 4 == 1) s.top_p = 0.8f;
    if (i % 4 == 2) s.top_k = 50;
    if (i % 4 == 3) s.repetition_penalty = 1.2f;
    s.logprobs = i % 2 == 0 ? 3 : 0;
    requests.push_back(r);
  }
  const auto own = answers_on("", requests), older = answers_on("sm_80", requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(own[i].ids.size(), 30u) << own[i].error;
    EXPECT_EQ(older[i].ids, own[i].ids) << "request " << i << " " << older[i].error;
    EXPECT_EQ(older[i].prefill.status, PrefillStatus::kReplayed);
    ASSERT_EQ(older[i].events.size(), own[i].events.size());
    for (std::size_t k = 0; k < own[i].events.size(); ++k)
      EXPECT_EQ(older[i].events[k].token.logprob, own[i].events[k].token.logprob) << "request " << i << ", event " << k;
  }
}

}  // namespace
}  // namespace monograph
