// What users see of the graphs through the facade: defaults, switches, capacity, reasons. (S-01, S-50, S-52, S-85,
// S-91)
#include <gtest/gtest.h>

#include <random>

#include "monograph/engine.h"

namespace monograph {
namespace {

using Ids = std::vector<TokenId>;

EngineConfig tiny() {
  EngineConfig config;
  config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/llama-gqa";
  config.threads = 1;
  config.max_seqs = 8;
  config.max_seq_len = 256;
  config.block_size = 16;
  config.chunk_size = 32;
  config.audit = true;
  return config;
}

Request of(Ids ids, int max_tokens) {
  Request request;
  request.prompt_ids = std::move(ids);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

Ids prompt(int n, unsigned seed) {
  std::mt19937 random(seed);
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(8 + random() % 270));
  return ids;
}

/// The prefill record of the last event of each of the n sequences.
std::vector<PrefillInfo> records(ResponseStream& stream, int n) {
  std::vector<PrefillInfo> all(static_cast<std::size_t>(n));
  while (auto event = stream.next()) all.at(static_cast<std::size_t>(event->token.index)) = event->token.prefill;
  return all;
}

PrefillInfo ask(Engine& engine, const Request& request) {
  ResponseStream stream = engine.submit(request);
  return records(stream, 1).at(0);
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
  const auto on = Engine::load(tiny());
  EXPECT_EQ(ask(*on, of(prompt(40, 1), 4)).status, PrefillStatus::kReplayed);
  EXPECT_EQ(n_captured(*on, "extend"), 2);  // 16, 32
  EXPECT_GE(metric(*on, "monograph_graph_memory_bytes", "family=\"extend\""), 0);
  for (bool master : {true, false}) {
    EngineConfig config = tiny();
    (master ? config.enable_cuda_graph : config.enable_prefill_cuda_graph) = false;
    const auto off = Engine::load(config);
    const PrefillInfo record = ask(*off, of(prompt(40, 1), 4));
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
  EngineConfig config = tiny();
  config.kv_cache_bytes = (1 + 2 + 16) * block;  // null, scratch of 32 tokens, one whole sequence
  for (bool graphs : {true, false}) {
    config.enable_cuda_graph = graphs;
    const auto engine = Engine::load(config);
    EXPECT_EQ(metric(*engine, "monograph_kv_blocks"), graphs ? 16 : 18);
    EXPECT_EQ(metric(*engine, "monograph_kv_blocks_used"), 0) << "scratch is in no metric";
    const PrefillInfo record = ask(*engine, of(prompt(200, 1), 56));
    EXPECT_EQ(record.status, graphs ? PrefillStatus::kReplayed : PrefillStatus::kNotRequested);
  }
  config.enable_cuda_graph = true;
  config.kv_cache_bytes = (1 + 2 + 15) * block;
  EXPECT_THROW(Engine::load(config), Error) << "scratch may not be taken from what one sequence needs";
}

// S-22, S-116 with chunking off: a batch above the ladder and above Bmax is refused by its reason, and right.
TEST(GraphSwitch, WithoutChunkingTheLimitsShow) {
  EngineConfig config = tiny();
  config.enable_chunked_prefill = false;
  config.prefill_capture_buckets = {16, 32};
  config.prefill_cuda_graph_max_requests = 2;
  const auto engine = Engine::load(config);
  EXPECT_EQ(ask(*engine, of(prompt(32, 1), 2)).status, PrefillStatus::kReplayed);
  EXPECT_EQ(ask(*engine, of(prompt(33, 2), 2)).status, PrefillStatus::kInputTokensExceedCaptureLimit);
  EXPECT_EQ(metric(*engine, "monograph_prefill_graph_fallbacks_total", "input_tokens_exceed_capture_limit"), 1);
}

// S-85, S-104: preempted and computed again under a policy that turns to eager: `replayed` gives way to the reason, a
// first reason stays; n > 1 sequences have their own.
TEST(GraphStatus, S104_PreemptionAndSeveralSequences) {
  EngineConfig config = tiny();
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
    for (const PrefillInfo& record : records(stream, 2)) {
      EXPECT_EQ(record.status, PrefillStatus::kReplayed);
      EXPECT_EQ(record.n_prefill_replays, record.n_prefill_steps);
      most_steps = std::max(most_steps, record.n_prefill_steps);
    }
  EXPECT_GT(metric(*engine, "vllm:num_preemptions_total"), 0);
  EXPECT_GT(most_steps, 4) << "nobody was computed again";
}

}  // namespace
}  // namespace monograph
