// A step is one graph launch and one wait, whatever it holds: every call to the CUDA runtime is counted. (issue:
// Fidelity)
#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "monograph/engine.h"
#include "tests/cuda/support/families.h"
#include "tests/e2e/support/metrics.h"
#include "tests/engine/support/answers.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::TestSequence;

/// Calls by name between construction and destruction, told by CUPTI, which is looked up at run time.
class CallCounter {
 public:
  CallCounter() {
    library_ = dlopen("libcupti.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (!library_) library_ = dlopen("libcupti.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library_) throw std::runtime_error(std::string("CUPTI is needed to count calls: ") + dlerror());
    check(function<decltype(&cuptiSubscribe)>("cuptiSubscribe")(&subscriber_, &CallCounter::on_call, this));
    check(function<decltype(&cuptiEnableDomain)>("cuptiEnableDomain")(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API));
  }
  ~CallCounter() { function<decltype(&cuptiUnsubscribe)>("cuptiUnsubscribe")(subscriber_); }
  CallCounter(const CallCounter&) = delete;

  std::map<std::string, int> calls;

 private:
  static void CUPTIAPI on_call(void* self, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
    const auto* info = static_cast<const CUpti_CallbackData*>(data);
    if (info->callbackSite == CUPTI_API_ENTER) ++static_cast<CallCounter*>(self)->calls[plain(info->functionName)];
  }
  /// Without the version that CUPTI appends: cudaGraphLaunch_v10000.
  static std::string plain(std::string name) { return name.substr(0, name.find("_v")); }
  static void check(CUptiResult result) {
    if (result != CUPTI_SUCCESS) throw std::runtime_error("CUPTI refuses: error " + std::to_string(result));
  }
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  CUpti_SubscriberHandle subscriber_{};
};

TEST(Calls, OneLaunchAndOneWaitAStep) {
  Lane lane(testing::on("cuda", testing::families()[5].config));
  constexpr int kSteps = 40;
  std::vector<Batch> batches;
  for (int i = 0; i < kSteps; ++i) {
    TestSequence a = lane.sequence(40 + i, static_cast<unsigned>(i), 1), b = lane.sequence(9, 3, 20, 1);
    Batch batch;
    if (i % 3 == 2) {  // a decode step of two rows
      a.cached = static_cast<int>(a.tokens.size()) - 1;
      b.cached = 8;
      lane.add(batch, a, 1, false);
      lane.add(batch, b, 1, false);
    } else {
      lane.add(batch, a, static_cast<int>(a.tokens.size()));
      if (i % 3 == 1) lane.add(batch, b, 9);
    }
    // Everything a step may ask of the sampler.
    batch.rows[0].sampling.temperature = 0.8f;
    batch.rows[0].sampling.repetition_penalty = 1.1f;
    batch.rows[0].sampling.top_p = 0.9f;
    batch.rows[0].sampling.n_logprobs = 5;
    batch.rows[0].bias = {{5, 1.0f}};
    batch.rows[0].banned = {7};
    batches.push_back(std::move(batch));
  }
  std::map<std::string, int> calls;
  {
    CallCounter counter;
    for (const Batch& batch : batches) ASSERT_TRUE(lane.runner().run(batch).replayed);
    calls = counter.calls;
  }
  const std::map<std::string, int> expected = {{"cudaGraphLaunch", kSteps}, {"cudaStreamSynchronize", kSteps}};
  EXPECT_EQ(calls, expected);
}

/// From submit to the last token: prompts in chunks, prefix hits with penalties, several at once, every kind of
/// sampling. What the engine does around its steps makes no call to the runtime either.
TEST(Calls, AnEnginesStepsAreLaunchesAndWaitsAlone) {
  EngineConfig config;
  config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/SmolLM2-135M";
  config.load_format = "dummy";
  config.device = "cuda";
  config.max_seq_len = 512;
  config.max_seqs = 8;
  config.chunk_size = 64;
  config.kv_cache_bytes = 256 << 20;
  const auto engine = Engine::load(config);
  // Counters follow the tokens by a moment: read until the engine is idle and they stand still.
  const auto steps = [&] {
    for (double seen = -1;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      const e2e::Metrics metrics(engine->metrics());
      const double n =
          metrics.sum("monograph_prefill_graph_replays_total") + metrics.sum("monograph_decode_graph_replays_total");
      if (n == seen && metrics.sum("vllm:num_requests_running") == 0) return static_cast<int>(n);
      seen = n;
    }
  };
  const auto requests = [](unsigned seed) {
    std::vector<Request> all;
    for (int i = 0; i < 6; ++i) {
      Ids prompt(static_cast<std::size_t>(40 + 30 * i));
      for (std::size_t at = 0; at < prompt.size(); ++at)
        prompt[at] = static_cast<TokenId>(3 + at * (at < 64 ? 7 : seed));
      Request r = of(std::move(prompt), 20);
      r.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
      r.sampling.top_p = 0.9f;
      r.sampling.repetition_penalty = 1.1f;
      r.sampling.logprobs = i;
      r.sampling.seed = seed;
      all.push_back(std::move(r));
    }
    return all;
  };
  const auto answer_all = [&](unsigned seed) {
    std::vector<ResponseStream> streams;
    std::vector<int> n_reused;
    for (Request& r : requests(seed)) streams.push_back(engine->submit(std::move(r)));
    for (auto& stream : streams) {
      const Answer answer = take_all(stream).at(0);
      EXPECT_EQ(answer.prefill.status, PrefillStatus::kReplayed);
      n_reused.push_back(answer.prefill.n_reused_tokens);
    }
    return n_reused;
  };
  answer_all(5);  // its first block is what the others find
  const int before = steps();
  std::map<std::string, int> calls;
  {
    CallCounter counter;
    const std::vector<int> n_reused = answer_all(11);
    calls = counter.calls;
    for (std::size_t i = 1; i < n_reused.size(); ++i) EXPECT_GE(n_reused[i], 64) << "no prefix hit, prompt " << i;
  }
  const int n = steps() - before;
  // Of 40 + 70 + 100 + 130 + 160 + 190 tokens five prompts find the first 64, and at most two of the last three find 64
  // more, which one of them computes: 242 in steps of at most 64. The prompt that is last through has 19 tokens to go.
  EXPECT_GE(n, (242 + 63) / 64 + 19);
  const std::map<std::string, int> expected = {{"cudaGraphLaunch", n}, {"cudaStreamSynchronize", n}};
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(e2e::Metrics(engine->metrics()).sum("monograph_sampling_outside_graph_total"), 0);
}

}  // namespace
}  // namespace monograph
