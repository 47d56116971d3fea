// What users see of the graphs through the facade: defaults, switches, capacity, reasons. (S-01, S-50, S-52, S-85,
// S-91)
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/engine/support/ask.h"

namespace monograph {
namespace {

EngineConfig small() {
  EngineConfig config = tiny();
  config.max_seqs = 8;
  return config;
}

Ids prompt(int n, unsigned seed) {
  std::mt19937_64 random(seed);
  return random_ids(random, n);
}

double metric(const Engine& engine, const std::string& name, const std::string& label = "") {
  const std::string text = engine.metrics();
  for (std::size_t at = 0; (at = text.find("\n" + name + "{", at)) != std::string::npos; ++at) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    if (line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ')));
  }
  ADD_FAILURE() << name << " is not in the metrics";
  return -1;
}

int n_captured(const Engine& engine, const std::string& family) {
  const std::string text = engine.metrics(), head = "\nmonograph_graph_capture_us{";
  int n = 0;
  for (std::size_t at = 0; (at = text.find(head, at)) != std::string::npos; ++at)
    n += text.substr(at, text.find('\n', at + 1) - at).find("family=\"" + family + "\"") != std::string::npos;
  return n;
}

TEST(GraphSwitch, S01_OnByDefaultAndOffRestoresEager) {
  const auto on = Engine::load(small());
  EXPECT_EQ(ask(*on, of(prompt(40, 1), 4)).prefill.status, PrefillStatus::kReplayed);
  EXPECT_EQ(n_captured(*on, "extend"), 2);  // 16, 32
  EXPECT_GE(metric(*on, "monograph_graph_memory_bytes", "family=\"extend\""), 0);
  for (bool master : {true, false}) {
    EngineConfig config = small();
    (master ? config.enable_cuda_graph : config.enable_prefill_cuda_graph) = false;
    const auto off = Engine::load(config);
    const PrefillInfo record = ask(*off, of(prompt(40, 1), 4)).prefill;
    EXPECT_EQ(record.status, PrefillStatus::kNotRequested);
    EXPECT_EQ(record.n_prefill_steps, 2);
    EXPECT_EQ(record.n_prefill_replays, 0);
    EXPECT_EQ(n_captured(*off, "extend"), 0);
    EXPECT_EQ(n_captured(*off, "decode") == 0, master);
    EXPECT_EQ(metric(*off, "monograph_prefill_graph_replays_total"), 0);
  }
}

// S-50: capacity and "can never fit" leave scratch out; without graphs its blocks are the requests'.
TEST(GraphSwitch, S50_LargestAdmissibleRequestWithAndWithoutGraphs) {
  const std::int64_t block = 2LL * 2 * 1 * 16 * 16 * 4;  // K and V, layers, heads, tokens, dims, floats
  EngineConfig config = small();
  config.kv_cache_bytes = (1 + 2 + 16) * block;  // null, scratch of 32 tokens, one whole sequence
  for (bool graphs : {true, false}) {
    config.enable_cuda_graph = graphs;
    const auto engine = Engine::load(config);
    EXPECT_EQ(metric(*engine, "monograph_kv_blocks"), graphs ? 16 : 18);
    EXPECT_EQ(metric(*engine, "monograph_kv_blocks_used"), 0) << "scratch is in no metric";
    const PrefillInfo record = ask(*engine, of(prompt(200, 1), 56)).prefill;
    EXPECT_EQ(record.status, graphs ? PrefillStatus::kReplayed : PrefillStatus::kNotRequested);
  }
  config.enable_cuda_graph = true;
  config.kv_cache_bytes = (1 + 2 + 15) * block;
  EXPECT_THROW(Engine::load(config), Error) << "scratch may not be taken from what one sequence needs";
}

// S-22, S-116 with chunking off: a batch above the ladder and above Bmax is refused by its reason, and right.
TEST(GraphSwitch, WithoutChunkingTheLimitsShow) {
  EngineConfig config = small();
  config.enable_chunked_prefill = false;
  config.prefill_capture_buckets = {16, 32};
  config.prefill_cuda_graph_max_requests = 2;
  const auto engine = Engine::load(config);
  EXPECT_EQ(ask(*engine, of(prompt(32, 1), 2)).prefill.status, PrefillStatus::kReplayed);
  EXPECT_EQ(ask(*engine, of(prompt(33, 2), 2)).prefill.status, PrefillStatus::kInputTokensExceedCaptureLimit);
  EXPECT_EQ(metric(*engine, "monograph_prefill_graph_fallbacks_total", "input_tokens_exceed_capture_limit"), 1);
}

// S-85, S-104: preempted and computed again under a policy that turns to eager: `replayed` gives way to the reason, a
// first reason stays; n > 1 sequences have their own.
TEST(GraphStatus, S104_PreemptionAndSeveralSequences) {
  EngineConfig config = small();
  config.kv_cache_bytes = (1 + 2 + 16) * 2LL * 2 * 1 * 16 * 16 * 4;
  config.enable_prefix_cache = false;
  const auto engine = Engine::load(config);
  std::vector<ResponseStream> streams;
  for (unsigned i = 0; i < 4; ++i) {
    Request request = of(prompt(50, i), 60);
    request.n = 2;
    streams.push_back(engine->submit(request));
  }
  int most_steps = 0;
  for (auto& stream : streams)
    for (const Answer& answer : take_all(stream, 2)) {
      const PrefillInfo& record = answer.prefill;
      EXPECT_EQ(record.status, PrefillStatus::kReplayed);
      EXPECT_EQ(record.n_prefill_replays, record.n_prefill_steps);
      most_steps = std::max(most_steps, record.n_prefill_steps);
    }
  EXPECT_GT(metric(*engine, "vllm:num_preemptions_total"), 0);
  EXPECT_GT(most_steps, 4) << "nobody was computed again";
}

}  // namespace
}  // namespace monograph
