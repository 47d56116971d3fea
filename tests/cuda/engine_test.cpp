// The engine on a GPU: memory at start-up, and the rows of the bug log that need a device. (issue: Memory; BUGLOG CG,
// KV, SA)
#include "monograph/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "monograph/error.h"
#include "ops/backend.h"
#include "tests/e2e/support/metrics.h"
#include "tests/engine/support/answers.h"

namespace monograph {
namespace {

const std::string kConfigs = std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/";

/// A folder with a config.json of a tiny model in shapes that the GPU's kernels take, made for so many positions.
std::string tiny_folder(int positions = 8192) {
  const std::string path = ::testing::TempDir() + "/monograph_cuda_tiny_" + std::to_string(positions);
  std::filesystem::create_directories(path);
  std::ofstream(path + "/config.json") << R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512, "max_position_embeddings": )"
                                       << positions << R"(,
      "rms_norm_eps": 1e-6, "rope_theta": 10000, "hidden_act": "silu", "tie_word_embeddings": false,
      "torch_dtype": "bfloat16"})";
  return path;
}

EngineConfig tiny() {
  EngineConfig config;
  config.model = tiny_folder();
  config.load_format = "dummy";
  config.device = "cuda";
  config.max_seq_len = 512;
  config.max_seqs = 16;
  config.chunk_size = 128;
  config.kv_cache_bytes = 64 << 20;
  config.audit = true;
  return config;
}

/// The oracle: eager, no prefix cache, one request at a time.
EngineConfig plain() {
  EngineConfig config = tiny();
  config.enable_cuda_graph = false;
  config.enable_prefix_cache = false;
  config.chunk_size = 512;
  return config;
}

Ids random_prompt(int n, unsigned seed) {
  std::mt19937 random(seed);
  Ids ids(static_cast<std::size_t>(n));
  for (auto& id : ids) id = static_cast<TokenId>(random() % 512);
  return ids;
}

std::vector<Answer> together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<ResponseStream> streams;
  for (const Request& r : requests) streams.push_back(engine.submit(r));
  std::vector<Answer> answers;
  for (auto& stream : streams) answers.push_back(take_all(stream).at(0));
  return answers;
}

std::vector<Answer> one_by_one(const std::vector<Request>& requests) {
  const auto engine = Engine::load(plain());
  std::vector<Answer> answers;
  for (const Request& r : requests) answers.push_back(ask(*engine, r));
  return answers;
}

void expect_same(const std::vector<Answer>& got, const std::vector<Answer>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].ids, wanted[i].ids) << "request " << i << " " << got[i].error;
    EXPECT_EQ(got[i].finish, wanted[i].finish) << "request " << i;
    EXPECT_EQ(got[i].prefill.status, PrefillStatus::kReplayed) << "request " << i;
  }
}

double metric(Engine& engine, const std::string& name) { return e2e::Metrics(engine.metrics()).sum(name); }

/// Device memory held by the test itself, and what the driver says.
class Gpu {
 public:
  Gpu() : backend_(make_backend(options(), Log())) {}
  DeviceMemory memory() const { return backend_.device->memory(); }
  void leave(std::int64_t bytes) { ballast_ = backend_.device->allocate(memory().free - bytes); }

 private:
  static BackendOptions options() {
    BackendOptions o;
    o.device = "cuda";
    o.activation_dtype = DType::kBF16;
    return o;
  }
  Backend backend_;
  Buffer ballast_;
};

/// "in all 135 GB of 150 GB" of the log's lines that begin with `head`, in bytes.
double total_of(const std::vector<std::string>& log, const std::string& head) {
  for (const std::string& line : log) {
    std::smatch match;
    if (line.starts_with(head) && std::regex_search(line, match, std::regex("in all ([0-9.]+) (GB|MB) of")))
      return std::stod(match[1]) * (match[2] == "GB" ? 1e9 : 1e6);
  }
  ADD_FAILURE() << "no line " << head;
  return 0;
}

TEST(Memory, TheBudgetIsWhatTheDriverReports) {
  for (const char* model : {"SmolLM2-135M", "Qwen3-0.6B"}) {
    Gpu gpu;
    EngineConfig config;
    config.model = kConfigs + model;
    config.load_format = "dummy";
    config.device = "cuda";
    std::vector<std::string> log;
    const auto engine = Engine::load(config, [&](int, std::string_view line) { log.emplace_back(line); });
    const DeviceMemory memory = gpu.memory();
    const auto used = static_cast<double>(memory.total - memory.free);
    std::printf("%s: budget %.3f GB, measured %.3f GB, by the driver %.3f GB in use of %.3f\n", model,
                total_of(log, "memory budget: ") / 1e9, total_of(log, "memory: ") / 1e9, used / 1e9,
                static_cast<double>(memory.total) / 1e9);
    EXPECT_NEAR(total_of(log, "memory budget: "), used, 0.03 * used) << model << ", before allocating";
    EXPECT_NEAR(total_of(log, "memory: "), used, 0.03 * used) << model << ", measured";
    // The smaller model's longest sequences all fit into less.
    if (model == std::string("Qwen3-0.6B")) {
      EXPECT_NEAR(used, 0.9 * static_cast<double>(memory.total), 0.01 * static_cast<double>(memory.total));
    }
    const Answer answer = ask(*engine, of(random_prompt(100, 1), 4));
    EXPECT_EQ(answer.ids.size(), 4u) << answer.error;
  }
}

EngineConfig advised(EngineConfig config, const std::string& line) {
  const auto at = line.find("start with ");
  EXPECT_NE(at, std::string::npos) << line;
  std::istringstream words(line.substr(at + 11));
  for (std::string flag, value; words >> flag >> value;) {
    if (flag == "--memory-fraction")
      config.memory_fraction = std::stod(value);
    else if (flag == "--max-seq-len")
      config.max_seq_len = std::stoi(value);
    else if (flag == "--chunk-size")
      config.chunk_size = std::stoi(value);
    else if (flag == "--max-seqs")
      config.max_seqs = std::stoi(value);
    else
      ADD_FAILURE() << flag;
  }
  return config;
}

TEST(Memory, CG22_TooLittleEndsInOneLineWhoseAdviceStarts) {
  EngineConfig config;
  config.model = kConfigs + "Qwen3-0.6B";
  config.load_format = "dummy";
  config.device = "cuda";
  int n_refused = 0;
  for (const double gigabytes : {16.0, 5.2, 4.6}) {
    Gpu gpu;
    gpu.leave(static_cast<std::int64_t>(gigabytes * 1e9));
    EngineConfig given = config;
    given.memory_fraction = gigabytes > 10 ? 0.9 : 0.98;
    try {
      Engine::load(given);
    } catch (const Error& e) {
      ++n_refused;
      const std::string line = e.what();
      std::printf("%s\n", line.c_str());
      EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
      EXPECT_EQ(line.find('\n'), std::string::npos);
      const auto engine = Engine::load(advised(given, line));
      EXPECT_EQ(ask(*engine, of(random_prompt(50, 1), 3)).ids.size(), 3u);
    }
  }
  EXPECT_GE(n_refused, 2);
  Gpu gpu;
  gpu.leave(300 << 20);
  try {
    Engine::load(config);
    FAIL() << "started with 300 MiB";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("are needed (weights 1.19 GB"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("free GPU memory or take a smaller model"), std::string::npos) << e.what();
  }
}

// A block size that the kernels do not have is refused at start, not by each step.
TEST(BugLog, BlockSizesThatTheKernelsDoNotHaveAreRefusedAtStart) {
  EngineConfig config = tiny();
  config.block_size = 16;
  try {
    Engine::load(config);
    FAIL() << "started";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(e.what()), "--block-size 16: the GPU's kernels need 64");
  }
}

// CG01, CG23: sizes between those of the captured decode graphs; nothing of padding reaches the books.
TEST(BugLog, CG01_CG23_StreamsBetweenTheDecodeBuckets) {
  for (const int n : {3, 5, 6, 7}) {
    std::vector<Request> requests;
    for (int i = 0; i < n; ++i) requests.push_back(of(random_prompt(20 + 9 * i, static_cast<unsigned>(i)), 100));
    const auto engine = Engine::load(tiny());
    const double before = metric(*engine, "vllm:generation_tokens_total");
    expect_same(together(*engine, requests), one_by_one(requests));
    EXPECT_EQ(metric(*engine, "vllm:generation_tokens_total") - before, 100 * n);
    EXPECT_EQ(metric(*engine, "monograph_decode_graph_misses_total"), 0);
  }
}

// CG07, CG12: long contexts, then few rows; and the first traffic is a padded batch.
TEST(BugLog, CG07_CG12_ABigBatchDrainsToAFew) {
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i)
    requests.push_back(of(random_prompt(i < 3 ? 40 : 400, static_cast<unsigned>(i)), i < 3 ? 200 : 9));
  EngineConfig config = tiny();
  config.kv_cache_bytes = 256 << 20;
  const auto engine = Engine::load(config);
  expect_same(together(*engine, requests), one_by_one(requests));
}

// CG11: the sentinel's blocks are reserved at start, so a full pool costs no replay.
TEST(BugLog, CG11_KV07_AFullPoolKeepsReplaying) {
  EngineConfig config = tiny();
  config.kv_cache_bytes = std::int64_t{2} * 2 * 2 * 64 * 64 * 2 * (3 + 8 * 2);  // two sequences of the longest
  const auto engine = Engine::load(config);
  std::vector<Request> requests;
  const Ids shared = random_prompt(130, 99);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Ids prompt(shared.begin(), shared.begin() + 1 + static_cast<std::ptrdiff_t>(random() % 130));
    const Ids own = random_prompt(1 + static_cast<int>(random() % 100), static_cast<unsigned>(i));
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(of(std::move(prompt), 1 + static_cast<int>(random() % 220)));
  }
  expect_same(together(*engine, requests), one_by_one(requests));
  EXPECT_GT(metric(*engine, "vllm:num_preemptions_total"), 0);
  EXPECT_GT(metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  EXPECT_EQ(metric(*engine, "monograph_prefill_graph_fallbacks_total"), 0);
  EXPECT_EQ(metric(*engine, "monograph_decode_graph_misses_total"), 0);
}

TEST(BugLog, CG16_APoolForOneSequenceIsUsedToItsEnd) {
  EngineConfig config = tiny();
  config.kv_cache_bytes = std::int64_t{2} * 2 * 2 * 64 * 64 * 2 * (3 + 8);
  const auto engine = Engine::load(config);
  const std::vector<Request> requests = {of(random_prompt(10, 1), 502)};
  const auto answers = together(*engine, requests);
  EXPECT_EQ(answers[0].finish, FinishReason::kLength);
  expect_same(answers, one_by_one(requests));
}

TEST(BugLog, CG17_CG18_TheMostSequencesHaveAGraph) {
  for (const int most : {1, 48}) {
    EngineConfig config = tiny();
    config.max_seqs = most;
    const auto engine = Engine::load(config);
    std::vector<Request> requests;
    for (int i = 0; i < most; ++i) requests.push_back(of(random_prompt(8, static_cast<unsigned>(i)), 40));
    expect_same(together(*engine, requests), one_by_one(requests));
    EXPECT_EQ(metric(*engine, "monograph_decode_graph_misses_total"), 0) << most;
    EXPECT_GT(metric(*engine, "monograph_decode_graph_replays_total"), 0) << most;
  }
}

// CG19, PG10: steps of one token between prompts of every size, long ones among running answers.
TEST(BugLog, CG19_PG10_OneTokenStepsAndLongPromptsTakeTurns) {
  EngineConfig config = tiny();
  config.max_seq_len = 4160;
  config.chunk_size = 2048;
  config.kv_cache_bytes = 128 << 20;
  EngineConfig alone = plain();
  alone.max_seq_len = alone.chunk_size = 4160;
  alone.kv_cache_bytes = config.kv_cache_bytes;
  std::vector<Request> requests;
  for (int i = 0; i < 7; ++i) requests.push_back(of(random_prompt(20, static_cast<unsigned>(i)), 120));
  for (int round = 0; round < 8; ++round)
    for (const int n : {1, 33, 500, 1234, 1514, 2048, 4000})
      requests.push_back(of(random_prompt(n, 50 + static_cast<unsigned>(round)), 2));
  const auto oracle = Engine::load(alone);
  const auto engine = Engine::load(config);
  std::vector<Answer> wanted;
  for (const Request& r : requests) wanted.push_back(ask(*oracle, r));
  const auto start = std::chrono::steady_clock::now();
  expect_same(together(*engine, requests), wanted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5 * 8)) << "a step hung";
  EXPECT_EQ(metric(*engine, "monograph_prefill_graph_fallbacks_total"), 0);
}

// CG20: block tables are as wide as the longest sequence in every graph, so the last token of it replays too.
TEST(BugLog, CG20_TheLongestContextFitsEveryTable) {
  EngineConfig config = tiny();
  config.decode_capture_buckets = {1, 4, 16};
  const auto engine = Engine::load(config);
  const std::vector<Request> requests = {of(random_prompt(510, 1), 2), of(random_prompt(5, 2), 300)};
  expect_same(together(*engine, requests), one_by_one(requests));
  EXPECT_EQ(metric(*engine, "monograph_decode_graph_misses_total"), 0);
}

// PG01: the default ladder ends where the model does.
TEST(BugLog, PG01_AModelOfFewPositionsStartsWithDefaults) {
  EngineConfig config;
  config.model = tiny_folder(128);
  config.load_format = "dummy";
  config.device = "cuda";
  const auto engine = Engine::load(config);
  const Answer answer = ask(*engine, of(random_prompt(120, 1), 8));
  EXPECT_EQ(answer.ids.size(), 8u) << answer.error;
  EXPECT_EQ(answer.prefill.status, PrefillStatus::kReplayed);
}

// PG05: rows of prefill and decode graphs come from one limit, whatever the explicit ladders say.
TEST(BugLog, PG05_LaddersThatDisagreeWithTheLimit) {
  for (const auto& [most, buckets] : {std::pair{10, std::vector{8}}, {16, std::vector{8}}}) {
    EngineConfig config = tiny();
    config.max_seqs = most;
    config.decode_capture_buckets = buckets;
    const auto engine = Engine::load(config);
    std::vector<Request> requests;
    for (int i = 0; i < most; ++i) requests.push_back(of(random_prompt(9, static_cast<unsigned>(i)), 30));
    expect_same(together(*engine, requests), one_by_one(requests));
    EXPECT_EQ(metric(*engine, "monograph_decode_graph_misses_total"), 0) << most;
  }
}

// PG06, PG08: ragged lengths in one prefill, each against alone.
TEST(BugLog, PG06_PG08_RaggedPrefills) {
  EngineConfig config = tiny();
  config.chunk_size = 256;
  const auto engine = Engine::load(config);
  for (const auto& lengths : {std::vector{1, 17, 31, 200}, {7, 16, 1, 9}, {16, 16, 16, 16}}) {
    std::vector<Request> requests;
    for (const int n : lengths) requests.push_back(of(random_prompt(n, static_cast<unsigned>(n)), 5));
    expect_same(together(*engine, requests), one_by_one(requests));
  }
}

// KV13, KV15: any number of sequences at once, and prompts of several chunks, again and again.
TEST(BugLog, KV13_KV15_ManyAtOnceAndInChunks) {
  const auto engine = Engine::load(tiny());
  for (int n = 1; n <= 16; n += 3) {
    std::vector<Request> requests;
    for (int i = 0; i < n; ++i)
      requests.push_back(of(random_prompt(30 + 20 * i, static_cast<unsigned>(100 * n + i)), 12));
    expect_same(together(*engine, requests), one_by_one(requests));
  }
  const std::vector<Request> chunked(5, of(random_prompt(192, 5), 8));
  expect_same(together(*engine, chunked), one_by_one(chunked));
}

// KV12: random prefixes with eviction; every answer against the oracle.
TEST(BugLog, KV12_PrefixesComeAndGo) {
  EngineConfig config = tiny();
  config.kv_cache_bytes = std::int64_t{2} * 2 * 2 * 64 * 64 * 2 * (3 + 8 * 3);
  const auto engine = Engine::load(config);
  std::vector<Request> requests;
  std::mt19937 random(12);
  for (int i = 0; i < 150; ++i) {
    Ids prompt = random_prompt(64 * (1 + static_cast<int>(random() % 4)), random() % 5);
    prompt.push_back(static_cast<TokenId>(random() % 512));
    requests.push_back(of(std::move(prompt), 4));
  }
  const auto wanted = one_by_one(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) expect_same({ask(*engine, requests[i])}, {wanted[i]});
  EXPECT_GT(metric(*engine, "vllm:prefix_cache_hits_total"), 0);
}

// KV17: among 64 long answers a new prompt gets its turn, and the answers go on meanwhile.
TEST(BugLog, KV17_ANewPromptAmongManyDecodes) {
  EngineConfig config = tiny();
  config.max_seqs = 65;
  config.kv_cache_bytes = 512 << 20;
  const auto engine = Engine::load(config);
  std::vector<ResponseStream> running;
  for (unsigned i = 0; i < 64; ++i) running.push_back(engine->submit(of(random_prompt(8, i), 500)));
  for (auto& stream : running) ASSERT_TRUE(stream.next());  // each of them decodes
  struct Counts {
    double tokens, steps;
  };
  const auto counts = [&] {
    const e2e::Metrics m(engine->metrics());
    return Counts{m.sum("vllm:generation_tokens_total"),
                  m.sum("monograph_prefill_graph_replays_total") + m.sum("monograph_decode_graph_replays_total")};
  };
  const Counts before = counts();
  const auto start = std::chrono::steady_clock::now();
  ResponseStream late = engine->submit(of(random_prompt(100, 99), 200));
  ASSERT_TRUE(late.next());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  while (late.next()) {
  }
  const Counts after = counts();
  EXPECT_GE(after.tokens - before.tokens, 32 * (after.steps - before.steps)) << "less than half of them went on";
  EXPECT_GE(after.steps - before.steps, 200);
  for (auto& stream : running) take_all(stream);
}

// KV18: 64 clients over shared prefixes, in a pool that is too small for all. (8-bit K and V, of which the row speaks,
// cannot be asked for: Options.KV18_ThereIsNoEightBitCacheToAskFor.)
TEST(BugLog, KV18_ManyClientsShareAPrefix) {
  EngineConfig config = tiny();
  config.max_seqs = 64;
  config.kv_cache_bytes = std::int64_t{2} * 2 * 2 * 64 * 64 * 2 * (9 + 8 * 20);  // twenty sequences of the longest
  const auto engine = Engine::load(config);
  std::vector<Request> requests;
  for (int i = 0; i < 512; ++i) {
    Ids prompt = random_prompt(192, static_cast<unsigned>(i % 3));
    const Ids own = random_prompt(1 + i % 90, 1000 + static_cast<unsigned>(i));
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(of(std::move(prompt), 8 + i % 60));
  }
  const auto wanted = one_by_one(requests);
  for (std::size_t at = 0; at < requests.size(); at += 64)
    expect_same(together(*engine, {requests.begin() + at, requests.begin() + at + 64}),
                {wanted.begin() + at, wanted.begin() + at + 64});
  EXPECT_GT(metric(*engine, "vllm:prefix_cache_hits_total"), 0);
  EXPECT_EQ(metric(*engine, "monograph_prefill_graph_fallbacks_total"), 0);
  EXPECT_EQ(metric(*engine, "monograph_kv_blocks_used"), 0);
}

TEST(BugLog, SA02_GreedyIsTopKOfOne) {
  const auto engine = Engine::load(tiny());
  for (unsigned i = 0; i < 100; ++i) {
    Request greedy = of(random_prompt(12, i), 6), top_one = greedy;
    top_one.sampling.temperature = 1.0f;
    top_one.sampling.top_k = 1;
    top_one.sampling.seed = i;
    const auto answers = together(*engine, {greedy, top_one});
    EXPECT_EQ(answers[0].ids, answers[1].ids) << i;
  }
}

TEST(BugLog, SA10_TheOrderOfArrivalChangesNothing) {
  std::vector<Request> requests;
  for (unsigned i = 0; i < 8; ++i) {
    Request r = of(random_prompt(10 + static_cast<int>(i), i), 10);
    r.sampling.temperature = 1.0f;
    r.sampling.seed = 1000 + i;
    requests.push_back(r);
  }
  const auto wanted = one_by_one(requests);
  const auto engine = Engine::load(tiny());
  std::mt19937 random(3);
  std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int round = 0; round < 24; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Request> shuffled;
    std::vector<Answer> expected;
    for (std::size_t i : order) shuffled.push_back(requests[i]), expected.push_back(wanted[i]);
    expect_same(together(*engine, shuffled), expected);
  }
}

// SA01, SA11, SA17: extreme temperatures beside greedy ones, and each penalty in each mode.
TEST(BugLog, SA01_SA11_SA17_SettingsStayWithTheirRequest) {
  std::vector<Request> requests;
  for (const float temperature : {0.0f, 2.0f, 1e-4f, 1e-7f, 1e-38f, 100.0f}) {
    Request r = of(random_prompt(15, 4), 12);
    r.sampling.temperature = temperature;
    r.sampling.top_p = temperature > 0 && temperature < 1 ? 1e-4f : 1.0f;
    r.sampling.seed = 5;
    requests.push_back(r);
  }
  for (const auto& [repetition, presence, frequency] :
       {std::tuple{1.5f, 0.0f, 0.0f}, {1.0f, 1.0f, 0.0f}, {1.0f, 0.0f, -1.0f}, {0.5f, -2.0f, 2.0f}}) {
    Request r = of(random_prompt(300, 6), 12);  // in chunks
    r.sampling.repetition_penalty = repetition;
    r.sampling.presence_penalty = presence;
    r.sampling.frequency_penalty = frequency;
    requests.push_back(r);
  }
  const auto engine = Engine::load(tiny());
  expect_same(together(*engine, requests), one_by_one(requests));
  EXPECT_EQ(metric(*engine, "monograph_sampling_outside_graph_total"), 0);
}

TEST(BugLog, SA04_SA08_WhatWouldReachOutsideIsRefused) {
  const auto engine = Engine::load(tiny());
  for (const TokenId id : {-1, 512, std::numeric_limits<TokenId>::max()})
    EXPECT_THROW(engine->submit(of(Ids{1, id}, 2)), Error) << id;
  for (const float penalty : {0.0f, -1.0f}) {
    Request r = of(Ids{1, 2}, 2);
    r.sampling.repetition_penalty = penalty;
    EXPECT_THROW(engine->submit(r), Error) << penalty;
  }
  EXPECT_EQ(ask(*engine, of(Ids{1, 2}, 2)).ids.size(), 2u) << "alive";
}

}  // namespace
}  // namespace monograph
