// Explicit position ids through the whole engine: a model with three per token, whole, chunked, after prefix hits, with
// preemption; and what a request may not ask. (S-79..S-83; issue: position ids)
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <type_traits>

#include "monograph/engine.h"

namespace monograph {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

constexpr int kMaxSeqLen = 200;

/// tests/golden/models/qwen2-bias with three positions per token.
std::string mrope_model() {
  const fs::path from = fs::path(MONOGRAPH_SOURCE_DIR) / "tests/golden/models/qwen2-bias";
  const fs::path to = fs::path(testing::TempDir()) / "qwen2-mrope";
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
  auto config = nlohmann::json::parse(std::ifstream(from / "config.json"));
  config["rope_parameters"]["mrope_section"] = {2, 3, 3};
  std::ofstream(to / "config.json") << config;
  return to.string();
}

EngineConfig config_of(const std::string& model) {
  EngineConfig config;
  config.model = model;
  config.threads = 1;
  config.max_seqs = 8;
  config.max_seq_len = kMaxSeqLen;
  config.block_size = 16;
  config.chunk_size = 32;
  config.audit = true;
  return config;
}

EngineConfig plain(const std::string& model) {
  EngineConfig config = config_of(model);
  config.enable_cuda_graph = false;
  config.enable_prefix_cache = false;
  config.chunk_size = kMaxSeqLen;
  return config;
}

struct Answer {
  Ids ids;
  std::vector<float> logprobs;
  PrefillInfo prefill;
  std::optional<FinishReason> finish;
  bool operator==(const Answer& other) const { return ids == other.ids && logprobs == other.logprobs; }
};

Answer take(ResponseStream& stream) {
  Answer answer;
  while (auto event = stream.next()) {
    if (event->token.token) answer.ids.push_back(*event->token.token);
    if (event->token.logprob) answer.logprobs.push_back(*event->token.logprob);
    for (const auto& top : event->token.top_logprobs) answer.logprobs.push_back(top.logprob);
    answer.prefill = event->token.prefill;
    answer.finish = event->token.finish;
  }
  return answer;
}

Answer ask(Engine& engine, const Request& request) {
  ResponseStream stream = engine.submit(request);
  return take(stream);
}

Ids random_ids(std::mt19937& random, int n, int below) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(below)));
  return ids;
}

Request request_of(Ids prompt, std::optional<Ids> positions, int max_tokens = 12) {
  Request request;
  request.prompt_ids = std::move(prompt);
  request.position_ids = std::move(positions);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 3;
  request.sampling.seed = 5;
  return request;
}

// S-78: what may be absent is optional in the types.
static_assert(std::is_same_v<decltype(Request::position_ids), std::optional<Ids>>);
static_assert(std::is_same_v<decltype(Request::prompt), std::optional<std::string>>);
static_assert(std::is_same_v<decltype(EngineConfig::enable_prefill_cuda_graph), std::optional<bool>>);
static_assert(std::is_same_v<decltype(TokenEvent::token), std::optional<TokenId>>);
static_assert(std::is_same_v<decltype(TokenEvent::finish), std::optional<FinishReason>>);

TEST(OptionalInputs, S78_AbsenceIsExplicit) {
  const Request request;
  EXPECT_FALSE(request.position_ids || request.prompt || request.chat || request.deadline || request.sampling.seed);
  const EngineConfig config;
  EXPECT_FALSE(config.enable_cuda_graph || config.enable_prefill_cuda_graph || config.prefill_cuda_graph_max_requests);
}

class MropeEngine : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = mrope_model(); }
  static std::string model_;
};
std::string MropeEngine::model_;

TEST_F(MropeEngine, S81_WithoutIdsItIsTheModelWithoutMrope) {
  std::mt19937 random(1);
  const Ids prompt = random_ids(random, 75, 288);
  const auto one = Engine::load(config_of(std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/qwen2-bias"));
  const auto three = Engine::load(config_of(model_));
  const Answer expected = ask(*one, request_of(prompt, {}));
  EXPECT_TRUE(ask(*three, request_of(prompt, {})) == expected);
  Ids text;
  for (int t = 0; t < 75; ++t) text.insert(text.end(), 3, t);
  const Answer said = ask(*three, request_of(prompt, text));
  EXPECT_TRUE(said == expected);
  EXPECT_EQ(said.prefill.n_reused_tokens, 64) << "the same positions, said or not, are the same prefix";
  EXPECT_TRUE(ask(*one, request_of(prompt, random_ids(random, 7, 100))) == expected) << "P = 0: ignored";
  EXPECT_FALSE(ask(*three, request_of(prompt, random_ids(random, 225, 150))) == expected) << "P = 3: used";
}

TEST_F(MropeEngine, EveryConfigurationGivesTheSameBits) {
  std::mt19937 random(2);
  std::vector<Request> requests;
  const Ids shared = random_ids(random, 64, 288), shared_positions = random_ids(random, 3 * 64, 120);
  for (int i = 0; i < 12; ++i) {
    Ids prompt(shared.begin(), shared.begin() + 16 * (i % 5));
    Ids positions(shared_positions.begin(), shared_positions.begin() + 48 * (i % 5));
    const int own = 1 + static_cast<int>(random() % 60);
    for (auto id : random_ids(random, own, 288)) prompt.push_back(id);
    for (auto id : random_ids(random, 3 * own, 120)) positions.push_back(id);
    if (i == 7) positions[0] += 1;  // the same tokens at another place: another prefix
    requests.push_back(request_of(prompt, positions, 1 + i));
  }
  std::vector<Answer> expected;
  const auto oracle = Engine::load(plain(model_));
  for (const Request& request : requests) expected.push_back(ask(*oracle, request));

  EngineConfig small = config_of(model_), tight = config_of(model_);
  small.chunk_size = 7;
  tight.kv_cache_bytes = (1 + 3 + 16) * 2LL * 2 * 2 * 16 * 16 * 4;  // 16 blocks: sequences are preempted
  for (const EngineConfig& config : {config_of(model_), small, tight}) {
    const auto engine = Engine::load(config);
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<ResponseStream> streams;
      for (const Request& request : requests) streams.push_back(engine->submit(request));
      for (std::size_t i = 0; i < streams.size(); ++i) {
        const Answer answer = take(streams[i]);
        EXPECT_TRUE(answer == expected[i]) << "request " << i;
        EXPECT_EQ(answer.prefill.status, PrefillStatus::kReplayed);
        const bool hits = repeat == 1 && !config.kv_cache_bytes && requests[i].prompt_ids.size() > 16;
        EXPECT_GE(answer.prefill.n_reused_tokens, hits ? 16 : 0) << "request " << i;
      }
    }
  }
}

TEST_F(MropeEngine, OtherPositionsShareNoBlocks) {
  const auto engine = Engine::load(config_of(model_));
  const Ids prompt(40, 9);
  const Ids here(120, 3), there(120, 4);
  EXPECT_EQ(ask(*engine, request_of(prompt, here)).prefill.n_reused_tokens, 0);
  const Answer other = ask(*engine, request_of(prompt, there));
  EXPECT_EQ(other.prefill.n_reused_tokens, 0);
  EXPECT_EQ(ask(*engine, request_of(prompt, {})).prefill.n_reused_tokens, 0);
  EXPECT_EQ(ask(*engine, request_of(prompt, there)).prefill.n_reused_tokens, 32);
  EXPECT_TRUE(ask(*Engine::load(plain(model_)), request_of(prompt, there)) == other);
}

TEST_F(MropeEngine, WhatARequestMayNotAsk) {
  const auto engine = Engine::load(config_of(model_));
  const auto refusal = [&](const Ids& positions) -> std::string {
    try {
      engine->submit(request_of(Ids(10, 9), positions));
      return "taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(e.field(), "position_ids");
      return e.what();
    }
  };
  EXPECT_EQ(refusal(Ids(29, 0)), "position_ids has 29 values: expected 10 x 3");
  EXPECT_EQ(refusal({}), "position_ids has 0 values: expected 10 x 3");
  Ids positions(30, 0);
  positions[29] = -1;
  EXPECT_EQ(refusal(positions), "position_ids -1: expected 0..199");
  positions[29] = kMaxSeqLen;
  EXPECT_EQ(refusal(positions), "position_ids 200: expected 0..199");
}

// The output counts on from the largest position: it ends where the context does, and harms no neighbour.
TEST_F(MropeEngine, OutputEndsWherePositionsDo) {
  const auto engine = Engine::load(config_of(model_));
  ResponseStream neighbour = engine->submit(request_of(Ids(20, 7), {}, 100));
  for (const auto& [last, expected] : std::vector<std::pair<int, std::size_t>>{{199, 1}, {198, 2}, {190, 10}}) {
    Ids positions(30, 0);
    positions[4] = last;
    const Answer answer = ask(*engine, request_of(Ids(10, 9), positions, 100));
    EXPECT_EQ(answer.ids.size(), expected);
    EXPECT_EQ(answer.finish, FinishReason::kLength);
  }
  EXPECT_EQ(take(neighbour).ids.size(), 100u);
}

}  // namespace
}  // namespace monograph
