// Random sampling settings among mixed neighbours give what the same request gives alone: tokens, log-probabilities and
// end, sampled inside the graph. The reference engine has no graphs, no prefix cache, one thread and one request.
// (issue: The lane in real traffic)
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "monograph/engine.h"
#include "tests/e2e/support/metrics.h"
#include "tests/e2e/support/rig.h"

namespace monograph::e2e {
namespace {

constexpr int kVocab = 288;
constexpr int kMaxSeqLen = 448;

EngineConfig lane_config() {
  EngineConfig config;
  config.model = tiny_model("llama-gqa");
  config.device = "cpu";
  config.threads = 2;
  config.max_seq_len = kMaxSeqLen;
  config.max_seqs = 12;
  config.chunk_size = 64;  // so that many prompts need several steps
  // Room for two of the longest: neighbours preempt each other.
  config.kv_cache_bytes = 9LL * 2 * 2 * 1 * 16 * 64 * 4;
  return config;
}

EngineConfig solo_config() {
  EngineConfig config = lane_config();
  config.threads = 1;
  config.enable_cuda_graph = false;
  config.enable_prefix_cache = false;
  return config;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {
    for (auto& prefix : prefixes_)
      for (int i = 0; i < 140; ++i) prefix.push_back(token());
  }

  Request request() {
    Request request;
    if (chance(0.5)) {
      const auto& prefix = prefixes_[pick(3)];
      request.prompt_ids.assign(prefix.begin(), prefix.begin() + 1 + static_cast<std::ptrdiff_t>(pick(140)));
    }
    const int n_own = 1 + static_cast<int>(pick(chance(0.2) ? 140 : 20));
    for (int i = 0; i < n_own; ++i) request.prompt_ids.push_back(token());
    request.sampling = sampling();
    return request;
  }

 private:
  SamplingParams sampling() {
    SamplingParams p;
    p.temperature = one_of({0.0f, 1e-4f, 0.5f, 1.0f, 1.0f, 3.0f});
    p.top_p = one_of({1.0f, 1.0f, 0.9f, 0.5f, 0.01f});
    p.top_k = static_cast<int>(one_of({0.0f, -1.0f, 1.0f, 5.0f, 40.0f, 400.0f}));
    p.min_p = one_of({0.0f, 0.0f, 0.05f, 0.5f});
    p.repetition_penalty = one_of({1.0f, 1.0f, 0.7f, 1.3f, 5.0f});
    p.presence_penalty = one_of({0.0f, 0.0f, -2.0f, 1.5f});
    p.frequency_penalty = one_of({0.0f, 0.0f, -0.5f, 2.0f});
    p.seed = (static_cast<std::uint64_t>(random_()) << 32) | random_();
    if (chance(0.3))
      for (int id : distinct(1 + pick(20))) p.logit_bias.emplace_back(id, one_of({-100.0f, -3.0f, 2.5f, 100.0f}));
    p.max_tokens = 1 + static_cast<int>(pick(chance(0.7) ? 130 : 24));
    p.min_tokens = chance(0.3) ? static_cast<int>(pick(static_cast<unsigned>(p.max_tokens) + 1)) : 0;
    p.ignore_eos = chance(0.2);
    if (chance(0.2))
      for (int id : distinct(1 + pick(4))) p.stop_token_ids.push_back(id);
    p.logprobs = static_cast<int>(pick(22)) - 1;
    return p;
  }

  std::vector<int> distinct(unsigned n) {
    std::vector<int> ids;
    while (ids.size() < n)
      if (const int id = token(); std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    return ids;
  }
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool chance(double p) { return pick(1000) < p * 1000; }
  int token() { return static_cast<int>(pick(kVocab)); }
  float one_of(std::initializer_list<float> values) {
    return values.begin()[pick(static_cast<unsigned>(values.size()))];
  }

  std::mt19937 random_;
  std::vector<TokenId> prefixes_[3];
};

struct Answer {
  std::vector<TokenEvent> events;
};

Answer drain(ResponseStream stream) {
  Answer answer;
  while (auto event = stream.next()) answer.events.push_back(event->token);
  return answer;
}

bool same_float(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void expect_same(const Answer& got, const Answer& expected, const std::string& where) {
  ASSERT_EQ(got.events.size(), expected.events.size()) << where;
  for (std::size_t i = 0; i < got.events.size(); ++i) {
    const TokenEvent &a = got.events[i], &b = expected.events[i];
    EXPECT_EQ(a.token, b.token) << where << ", event " << i;
    EXPECT_EQ(a.finish, b.finish) << where << ", event " << i << " " << a.error;
    EXPECT_EQ(a.stop_token, b.stop_token) << where;
    ASSERT_EQ(a.logprob.has_value(), b.logprob.has_value()) << where;
    EXPECT_TRUE(!a.logprob || same_float(*a.logprob, *b.logprob)) << where << ", event " << i;
    ASSERT_EQ(a.top_logprobs.size(), b.top_logprobs.size()) << where;
    for (std::size_t k = 0; k < a.top_logprobs.size(); ++k) {
      EXPECT_EQ(a.top_logprobs[k].id, b.top_logprobs[k].id) << where;
      EXPECT_TRUE(same_float(a.top_logprobs[k].logprob, b.top_logprobs[k].logprob)) << where;
    }
  }
}

int n_settings() { return full() ? 1000 : 150; }

TEST(Sampling, NeighboursChangeNothing) {
  constexpr unsigned kSeed = 4711;
  std::printf("seed %u, %d settings\n", kSeed, n_settings());
  Generator generator(kSeed);
  std::vector<Request> requests;
  for (int i = 0; i < n_settings(); ++i) requests.push_back(generator.request());

  std::vector<Answer> alone;
  {
    const auto solo = Engine::load(solo_config());
    for (const Request& request : requests) alone.push_back(drain(solo->submit(request)));
  }
  const auto engine = Engine::load(lane_config());
  std::vector<ResponseStream> streams;
  std::size_t n_done = 0;
  const auto finish_one = [&] {
    expect_same(drain(std::move(streams[n_done])), alone[n_done], "setting " + std::to_string(n_done));
    EXPECT_GE(alone[n_done].events.size(), 1u);
    ++n_done;
  };
  for (const Request& request : requests) {
    streams.push_back(engine->submit(request));
    if (streams.size() - n_done > 40) finish_one();
  }
  while (n_done < streams.size()) finish_one();

  const Metrics metrics(engine->metrics());
  std::printf("%g preemptions, %g prompt tokens from the prefix cache\n", metrics.sum("vllm:num_preemptions_total"),
              metrics.sum("vllm:prefix_cache_hits_total"));
  EXPECT_EQ(metrics.sum("monograph_sampling_outside_graph_total"), 0);
  EXPECT_EQ(metrics.sum("monograph_prefill_graph_fallbacks_total"), 0);
  EXPECT_GT(metrics.sum("monograph_prefill_graph_replays_total"), 0);
  EXPECT_GE(metrics.sum("vllm:num_preemptions_total"), full() ? 5 : 0) << "the pool was not tight enough";
}

}  // namespace
}  // namespace monograph::e2e
