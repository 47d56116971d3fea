// Rows of the bug log through the facade, over a real tiny model: each answer is what the same request gives alone,
// eager, without prefix cache and in one chunk (docs/bug_log.md lists all rows).
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "monograph/error.h"
#include "tests/engine/support/ask.h"
#include "tests/model/support/files.h"

namespace monograph {
namespace {

class BugLog : public testing::Test {
 protected:
  static void SetUpTestSuite() { oracle_ = Engine::load(plain()).release(); }
  static void TearDownTestSuite() {
    delete oracle_;
    oracle_ = nullptr;
  }
  static Scored alone(const Request& request) { return scored(ask(*oracle_, request)); }
  static std::vector<Scored> each_alone(const std::vector<Request>& requests) {
    std::vector<Scored> out;
    for (const Request& request : requests) out.push_back(alone(request));
    return out;
  }
  static Engine* oracle_;
};
Engine* BugLog::oracle_ = nullptr;

/// All at once, in the given order; the answers in the order of `requests`.
std::vector<Scored> together(Engine& engine, const std::vector<Request>& requests, const std::vector<int>& order) {
  std::vector<std::pair<int, ResponseStream>> streams;
  for (int i : order) streams.emplace_back(i, engine.submit(requests[static_cast<std::size_t>(i)]));
  std::vector<Scored> out(requests.size());
  for (auto& [i, stream] : streams) out[static_cast<std::size_t>(i)] = scored(take_all(stream).at(0));
  return out;
}

std::vector<int> in_order(std::size_t n) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Prompts that begin with a piece of one of three shared prefixes, or with none.
class Prompts {
 public:
  explicit Prompts(unsigned seed) : random_(seed) {
    for (Ids& prefix : prefixes_) prefix = random_ids(random_, 100);
  }
  Ids next(int max_own) {
    const Ids& prefix = prefixes_[random_() % 3];
    Ids ids(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(random_() % 4 ? random_() % 100 : 0));
    for (TokenId id : random_ids(random_, 1 + static_cast<int>(random_() % max_own))) ids.push_back(id);
    return ids;
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  Ids prefixes_[3];
};

TEST_F(BugLog, KV07_AThousandPromptsOverThreePrefixesInChunks) {
  Prompts prompts(7);
  std::vector<Request> requests;
  for (int i = 0; i < 250; ++i) requests.push_back(scoring(prompts.next(50), 2));
  const std::vector<Scored> expected = each_alone(requests);
  for (int chunk : {16, 17, 64, 512}) {
    EngineConfig config = tiny();
    config.chunk_size = chunk;
    const auto engine = Engine::load(config);
    const std::vector<Scored> found = together(*engine, requests, in_order(requests.size()));
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i]) << i << ", chunk " << chunk;
  }
}

TEST_F(BugLog, KV20_PromptsThatPartInsideABlockRunTogether) {
  std::mt19937_64 random(20);
  const auto engine = Engine::load(tiny());
  const Ids shared = random_ids(random, 24);  // one and a half blocks
  for (int round = 0; round < 8; ++round) {
    std::vector<Request> requests;
    for (int i = 0; i < 2; ++i) {
      Ids prompt = shared;
      for (TokenId id : random_ids(random, 6 + round)) prompt.push_back(id);
      requests.push_back(scoring(prompt, 12));
    }
    EXPECT_EQ(together(*engine, requests, {0, 1}), each_alone(requests)) << "round " << round;
  }
}

// A model file that somebody shortens: while it loads, the load ends in one line that names a tensor; while it serves,
// nobody notices, because what was read is the engine's own.
class ShortenedFile : public testing::TestWithParam<const char*> {
 protected:
  ShortenedFile() {
    std::filesystem::copy(files::kModels + GetParam(), folder_.path(), std::filesystem::copy_options::recursive);
    const std::string single = folder_.file(GetParam());
    config_.model = std::filesystem::exists(single) ? single : folder_.path();
    file_ = std::filesystem::exists(single) ? single : folder_.file("model.safetensors");
    bytes_ = files::read_bytes(file_);
  }
  void shorten() const { std::filesystem::resize_file(file_, 100); }
  /// Lines of progress. The file is shortened when `at` of them have come.
  int load(int at) {
    files::write_bytes(file_, bytes_);
    int n_lines = 0;
    engine_ = Engine::load(config_, [&](int, std::string_view line) {
      if (line.starts_with("loading weights") && ++n_lines == at) shorten();
    });
    return n_lines;
  }
  const files::TempFolder folder_;
  EngineConfig config_ = tiny();
  std::string file_, bytes_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(ShortenedFile, MF12_AtEachTenthOfTheLoad) {
  const int n_lines = load(-1);
  ASSERT_GE(n_lines, 5);
  for (int at = 1; at < n_lines; ++at) {  // with the last line, everything may have been read
    try {
      load(at);
      ADD_FAILURE() << "loaded although the file was shortened at line " << at;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnreadableFile);
      files::expect_one_line(e.what(), "line " + std::to_string(at));
      EXPECT_NE(std::string(e.what()).find("weight: the file ends"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("it was shortened after it was opened"), std::string::npos) << e.what();
    }
  }
}

TEST_P(ShortenedFile, MF12_WhileItServes) {
  load(-1);
  const Request request = scoring(Ids(40, 9), 20);
  const Scored before = scored(ask(*engine_, request));
  ResponseStream running = engine_->submit(request);
  shorten();
  EXPECT_EQ(scored(take_all(running).at(0)), before);
  EXPECT_EQ(scored(ask(*engine_, request)), before);
}

INSTANTIATE_TEST_SUITE_P(Files, ShortenedFile, testing::Values("formats-f32.gguf", "formats-f32-single-new"));

// Sixteen callers match, insert, evict and leave at random, on a pool that is always short; the engine audits every
// block after every round, and at the end nobody holds one.
TEST_F(BugLog, KV22_KV08_ManyCallersComeAndGo) {
  EngineConfig config = tiny();
  config.kv_cache_bytes = (1 + 2 + 40) * 2LL * 2 * 1 * 16 * 16 * 4;  // 40 blocks
  const auto engine = Engine::load(config);
  Prompts common(22);
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) requests.push_back(scoring(common.next(40), 6));
  const std::vector<Scored> expected = each_alone(requests);
  std::atomic<int> n_wrong{0};
  const char* asked = std::getenv("MONOGRAPH_CALLER_REQUESTS");  // of each; many in tools/long_run.py
  const int n_requests = asked ? std::atoi(asked) : 60;
  const auto caller = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < n_requests; ++i) {
      const std::size_t which = random() % requests.size();
      ResponseStream stream = engine->submit(requests[which]);
      const bool leaves = random() % 3 == 0;
      for (auto n = random() % 4; leaves && n > 0; --n) stream.next();
      if (!leaves && scored(take_all(stream).at(0)) != expected[which]) ++n_wrong;
    }
  };
  std::vector<std::thread> callers;
  for (unsigned seed = 0; seed < 16; ++seed) callers.emplace_back(caller, 2200 + seed);
  for (std::thread& thread : callers) thread.join();
  EXPECT_EQ(n_wrong, 0) << "seeds 2200 to 2215";
  std::printf("16 callers of %d requests, %d wrong\n", n_requests, n_wrong.load());
  engine->stop(std::chrono::minutes(5));
  const std::string metrics = engine->metrics();
  EXPECT_NE(metrics.find("monograph_kv_blocks_used{model_name=\"llama-gqa\",engine=\"0\"} 0\n"), std::string::npos);
}

TEST_F(BugLog, SA02_TemperatureZeroEqualsTopKOne) {
  Prompts prompts(2);
  const auto engine = Engine::load(tiny());
  for (int i = 0; i < 100; ++i) {
    Request request = of(prompts.next(20), 6);
    const Ids greedy = ask(*engine, request).ids;
    request.sampling.temperature = 1;
    request.sampling.top_k = 1;
    EXPECT_EQ(ask(*engine, request).ids, greedy) << i;
  }
}

TEST_F(BugLog, SA10_ArrivalOrderChangesNoSeededOutput) {
  Prompts prompts(10);
  std::vector<Request> requests;
  for (unsigned i = 0; i < 8; ++i) {
    requests.push_back(scoring(prompts.next(40), 8));
    requests.back().sampling.temperature = 1.2f;
    requests.back().sampling.seed = i;
  }
  const std::vector<Scored> expected = each_alone(requests);
  const auto engine = Engine::load(tiny());
  std::vector<int> order = in_order(requests.size());
  for (int round = 0; round < 24; ++round) {
    std::ranges::shuffle(order, prompts.random());
    EXPECT_EQ(together(*engine, requests, order), expected) << "round " << round;
  }
}

TEST_F(BugLog, SA11_GreedyBesideHot) {
  Prompts prompts(11);
  const auto engine = Engine::load(tiny());
  for (unsigned i = 0; i < 20; ++i) {
    std::vector<Request> requests{scoring(prompts.next(30), 10), scoring(prompts.next(30), 10)};
    requests[1].sampling.temperature = 2;
    requests[1].sampling.seed = i;
    EXPECT_EQ(together(*engine, requests, {static_cast<int>(i % 2), 1 - static_cast<int>(i % 2)}), each_alone(requests))
        << i;
  }
}

TEST_F(BugLog, SA17_EveryModeTakesEveryPenalty) {
  Prompts prompts(17);
  std::vector<Request> requests;
  const auto add = [&](auto&& change) {
    requests.push_back(scoring(prompts.next(60), 12));
    change(requests.back().sampling);
  };
  for (float penalty : {0.001f, 0.5f, 10.0f}) add([&](SamplingParams& s) { s.repetition_penalty = penalty; });
  for (float penalty : {-2.0f, 2.0f}) {
    add([&](SamplingParams& s) { s.presence_penalty = penalty; });
    add([&](SamplingParams& s) { s.frequency_penalty = penalty; });
  }
  add([](SamplingParams& s) {
    s.repetition_penalty = 1.3f;
    s.presence_penalty = s.frequency_penalty = -1;
    s.temperature = 1;
    s.seed = 17;
  });
  const std::vector<Scored> expected = each_alone(requests);
  std::vector<EngineConfig> modes(4, tiny());
  modes[1].enable_cuda_graph = false;
  modes[2].chunk_size = 7;
  modes[3].threads = 2;
  for (std::size_t mode = 0; mode < modes.size(); ++mode) {
    const auto engine = Engine::load(modes[mode]);
    for (int repeat = 0; repeat < 2; ++repeat)  // the second time after prefix hits
      EXPECT_EQ(together(*engine, requests, in_order(requests.size())), expected) << "mode " << mode;
  }
}

}  // namespace
}  // namespace monograph
