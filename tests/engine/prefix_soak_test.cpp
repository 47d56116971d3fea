// KV12: prefix hits, eviction, preemption and leaving callers for a long time never spoil the cache, and memory stands
// still. A few seconds by default; MONOGRAPH_SOAK_SECONDS makes it long (tools/long_run.py).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <random>

#include "tests/engine/support/ask.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

int from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : fallback;
}

/// Memory of the process that no file backs, swapped out or not, in MB.
double memory_mb() {
  std::ifstream status("/proc/self/status");
  double kb = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:") || line.starts_with("VmSwap:")) kb += std::stod(line.substr(line.find(':') + 1));
  return kb / 1024;
}

class Soak {
 public:
  explicit Soak(unsigned seed) : random_(seed) {
    EngineConfig config = tiny();
    config.kv_cache_bytes = (1 + 2 + 60) * 2LL * 2 * 1 * 16 * 16 * 4;  // 60 blocks: about four of the longest
    engine_ = Engine::load(config);
    oracle_ = Engine::load(plain());
    for (Ids& prefix : prefixes_) prefix = random_ids(random_, 160);
  }

  /// One more request beside those that run; now and then the oldest is read to its end, or left alone.
  void step() {
    if (n_requests_ % 200 == 0) prefixes_[random_() % 6] = random_ids(random_, 160);
    Request request = next_request();
    const bool checked = n_requests_++ % 50 == 0;
    running_.push_back({engine_->submit(request), checked ? std::optional(request) : std::nullopt});
    if (running_.size() > random_() % 24) finish_one();
  }
  void finish() {
    while (!running_.empty()) finish_one();
    engine_->stop(std::chrono::minutes(5));
    EXPECT_NE(engine_->metrics().find("monograph_kv_blocks_used{model_name=\"llama-gqa\",engine=\"0\"} 0\n"),
              std::string::npos);
  }
  void report() const {
    std::printf("%lld requests, %lld compared with the oracle, %lld differ\n", static_cast<long long>(n_requests_),
                static_cast<long long>(n_checked_), static_cast<long long>(n_wrong_));
  }
  std::int64_t n_checked() const { return n_checked_; }
  std::int64_t n_wrong() const { return n_wrong_; }

 private:
  struct Running {
    ResponseStream stream;
    std::optional<Request> checked;
  };

  Request next_request() {
    const Ids& prefix = prefixes_[random_() % 6];
    Ids prompt(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(random_() % 160));
    for (TokenId id : random_ids(random_, 1 + static_cast<int>(random_() % 40))) prompt.push_back(id);
    Request request = scoring(prompt, 1 + static_cast<int>(random_() % 16));
    request.sampling.temperature = random_() % 2 ? 1.0f : 0.0f;
    request.sampling.seed = random_();
    if (random_() % 4 == 0) request.sampling.repetition_penalty = 1.2f;
    if (random_() % 8 == 0) request.cache_salt = std::to_string(random_() % 3);
    return request;
  }
  void finish_one() {
    Running oldest = std::move(running_.front());
    running_.pop_front();
    if (!oldest.checked && random_() % 5 == 0) return;  // its caller leaves
    const Scored found = scored(take_all(oldest.stream).at(0));
    if (!oldest.checked) return;
    ++n_checked_;
    if (found != scored(ask(*oracle_, *oldest.checked))) ++n_wrong_;
  }

  std::mt19937_64 random_;
  std::unique_ptr<Engine> engine_, oracle_;
  Ids prefixes_[6];
  std::deque<Running> running_;
  std::int64_t n_requests_ = 0, n_checked_ = 0, n_wrong_ = 0;
};

TEST(PrefixSoak, KV12_RandomPrefixesWithEviction) {
  const auto seed = static_cast<unsigned>(from_environment("TEST_SEED", 12));
  const int seconds = from_environment("MONOGRAPH_SOAK_SECONDS", 0);
  std::printf("seed %u\n", seed);
  Soak soak(seed);
  const auto begin = Clock::now();
  const auto run_until = [&](std::chrono::seconds end) {
    do soak.step();
    while (Clock::now() - begin < end);
  };
  for (int i = 0; i < 1000; ++i) soak.step();
  run_until(std::chrono::seconds(seconds / 10));
  const double at_a_tenth = memory_mb();
  run_until(std::chrono::seconds(seconds));
  const double at_the_end = memory_mb();
  soak.finish();
  soak.report();
  std::printf("memory %.1f MB after a tenth of the time, %.1f MB at the end\n", at_a_tenth, at_the_end);
  EXPECT_GE(soak.n_checked(), 20);
  EXPECT_EQ(soak.n_wrong(), 0);
  EXPECT_LE(at_the_end, at_a_tenth + 8) << "what requests leave behind grows";
}

}  // namespace
}  // namespace monograph
