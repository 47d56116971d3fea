#include "engine/loop.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "monograph/error.h"
#include "tests/engine/support/fake_runner.h"
#include "tests/support/block_pool_damage.h"

namespace monograph {
namespace {

using Ids = std::vector<TokenId>;
using std::chrono::milliseconds;
using std::chrono::seconds;

Ids prompt_of(int n, int start = 1) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back((start + i * 7) % 97);
  return ids;
}

/// A door that the engine thread stops at until the test opens it.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++n_waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --n_waiting_;
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_waiting_ > 0 || open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int n_waiting_ = 0;
};

struct Handle {
  std::shared_ptr<Channel> channel;
  std::shared_ptr<RequestState> request;

  Ids tokens;
  TokenEvent last;
  /// Takes events to the end.
  Handle& drain() {
    do {
      last = channel->pop();
      if (last.token) tokens.push_back(*last.token);
    } while (!last.finish);
    return *this;
  }
};

class LoopTest : public testing::Test {
 protected:
  void start(FakeRunnerConfig fake = {}, LoopConfig config = {}) {
    fake_ = fake;
    runner_ = std::make_unique<FakeRunner>(fake);
    runner_->before_step = before_step_;
    pool_ = std::make_unique<BlockPool>(fake.n_blocks);
    metrics_ = std::make_unique<Metrics>("tiny", fake.block_size);
    config.scheduler = {.chunk_size = fake.chunk_size,
                        .max_rows = fake.max_rows,
                        .max_seqs = fake.max_seqs,
                        .block_size = fake.block_size,
                        .vocab_size = fake.vocab_size};
    config.audit = audit_;
    loop_ = std::make_unique<Loop>(config, *runner_, *pool_, *metrics_, Log([this](LogLevel, std::string_view line) {
                                     const std::lock_guard lock(log_mutex_);
                                     log_.append(line).push_back('\n');
                                   }));
  }
  void TearDown() override { loop_.reset(); }

  Handle submit(Ids prompt, int max_tokens, const std::string& id = "r") {
    Handle handle{std::make_shared<Channel>(), std::make_shared<RequestState>(1)};
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = id;
    sequence->request = handle.request;
    sequence->channel = handle.channel;
    sequence->prompt_len = static_cast<int>(prompt.size());
    sequence->tokens = std::move(prompt);
    sequence->max_tokens = max_tokens;
    sequence->submitted = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<Sequence>> sequences;
    sequences.push_back(std::move(sequence));
    loop_->submit(std::move(sequences));
    return handle;
  }
  void wait_until_refusing() {
    for (;;) {
      try {
        submit(prompt_of(2), 1);
      } catch (const Error& e) {
        if (e.code() == ErrorCode::kUnavailable) return;
      }
      std::this_thread::yield();
    }
  }
  Ids solo(const Ids& prompt, int max_tokens) const {
    return fake_output(prompt, {}, max_tokens, 0, {}, fake_.vocab_size);
  }

  std::function<void(std::int64_t, const Batch&)> before_step_;
  bool audit_ = true;
  FakeRunnerConfig fake_;
  std::unique_ptr<FakeRunner> runner_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Metrics> metrics_;
  std::mutex log_mutex_;
  std::string log_;
  std::unique_ptr<Loop> loop_;
};

TEST_F(LoopTest, ManyCallersGetTheSoloOutput) {
  start({.n_blocks = 80});
  std::vector<std::future<void>> callers;
  for (int c = 0; c < 4; ++c)
    callers.push_back(std::async(std::launch::async, [&, c] {
      for (int i = 0; i < 20; ++i) {
        const Ids prompt = prompt_of(1 + (c * 20 + i) % 30, c);
        Handle handle = submit(prompt, 1 + i);
        EXPECT_EQ(handle.drain().tokens, solo(prompt, 1 + i));
      }
    }));
  for (auto& caller : callers) caller.get();
  loop_->stop(milliseconds(0));
  EXPECT_EQ(pool_->n_used(), 0);
}

TEST_F(LoopTest, FullQueueSaysTryLater) {
  Gate gate;
  before_step_ = [&](std::int64_t, const Batch&) { gate.wait(); };
  start({.max_seqs = 1}, {.max_queue = 2});
  Handle running = submit(prompt_of(4), 3);
  gate.wait_for_visitor();  // it has left the queue
  Handle a = submit(prompt_of(4, 2), 3), b = submit(prompt_of(4, 3), 3);
  try {
    submit(prompt_of(4, 4), 3);
    FAIL() << "a third request was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kTryLater);
    EXPECT_NE(std::string(e.what()).find("max-queue 2"), std::string::npos);
  }
  gate.open();
  EXPECT_EQ(running.drain().tokens.size(), 3u);
  EXPECT_EQ(a.drain().tokens.size(), 3u);
  EXPECT_EQ(b.drain().tokens.size(), 3u);
  EXPECT_EQ(submit(prompt_of(4, 4), 3).drain().tokens.size(), 3u);
}

// R16: in service a break is counted, logged and quarantined. Who ran ends with an error, who waited gets the right
// answer, and every block is there again.
TEST_F(LoopTest, R16_BrokenAccountsAreQuarantined) {
  const std::vector<std::function<void(BlockPool&)>> breaks{
      [](BlockPool& pool) { BlockPoolDamage{pool}.free_list().pop_back(); },  // a block is lost
      [](BlockPool& pool) { pool.allocate(1); },                              // nobody holds it, nobody will release it
      [](BlockPool& pool) { BlockPoolDamage{pool}.n_cached() = -1; },
  };
  audit_ = false;
  for (const auto& damage : breaks) {
    Gate gate;
    before_step_ = [&](std::int64_t step, const Batch&) {
      if (step != 3) return;
      gate.wait();
      damage(*pool_);
    };
    start({.max_seqs = 2});
    Handle a = submit(prompt_of(9), 6), b = submit(prompt_of(8, 2), 6);
    gate.wait_for_visitor();
    Handle waiting = submit(prompt_of(9), 6);
    gate.open();
    for (Handle* running : {&a, &b}) {
      running->drain();
      EXPECT_EQ(running->last.finish, FinishReason::kError);
      EXPECT_NE(running->last.error.find("do not add up"), std::string::npos) << running->last.error;
    }
    EXPECT_EQ(waiting.drain().tokens, solo(prompt_of(9), 6));
    loop_->stop(milliseconds(0));
    pool_->check_invariants();
    EXPECT_EQ(pool_->n_used(), 0);
    EXPECT_EQ(pool_->n_available(), pool_->capacity());
    EXPECT_NE(metrics_->render().find("monograph_broken_kv_accounts_total{model_name=\"tiny\",engine=\"0\"} 1"),
              std::string::npos);
    EXPECT_NE(log_.find("count=1"), std::string::npos) << log_;
    loop_.reset();
    log_.clear();
  }
}

// Whatever is thrown, with or without a message, fails its step and nothing else.
TEST_F(LoopTest, AFailureOfAnyTypeIsAFailure) {
  before_step_ = [](std::int64_t step, const Batch&) {
    if (step == 2) throw std::runtime_error("");
    if (step == 4) throw 42;
    if (step == 6) throw Error(ErrorCode::kInternal, "");
  };
  start();
  for (const char* said : {"without a message", "unknown type", "without a message"}) {
    Handle failed = submit(prompt_of(5), 6);
    failed.drain();
    EXPECT_EQ(failed.last.finish, FinishReason::kError);
    EXPECT_NE(failed.last.error.find(said), std::string::npos) << failed.last.error;
    EXPECT_EQ(failed.tokens.size(), 1u);
  }
  EXPECT_EQ(submit(prompt_of(5), 6).drain().tokens, solo(prompt_of(5), 6));
}

TEST_F(LoopTest, FailedStepEndsItsRequestsAndTheLoopGoesOn) {
  before_step_ = [](std::int64_t step, const Batch&) {
    if (step == 2) throw std::runtime_error("step 2 is made to fail");
  };
  start();
  Handle failed = submit(prompt_of(5), 6);
  failed.drain();
  EXPECT_EQ(failed.last.finish, FinishReason::kError);
  EXPECT_NE(failed.last.error.find("step 2 is made to fail"), std::string::npos);
  EXPECT_EQ(failed.tokens.size(), 1u);
  EXPECT_EQ(submit(prompt_of(5), 6).drain().tokens, solo(prompt_of(5), 6));
  loop_->stop(milliseconds(0));
  EXPECT_NE(metrics_->render().find("monograph_failed_steps_total{model_name=\"tiny\",engine=\"0\"} 1"),
            std::string::npos);
  EXPECT_NE(log_.find("step 2 is made to fail"), std::string::npos);
}

TEST_F(LoopTest, DeviceFaultEndsEverything) {
  std::promise<std::string> fault;
  Gate gate;
  before_step_ = [&](std::int64_t step, const Batch&) {
    if (step < 3) return;
    gate.wait();
    throw Error(ErrorCode::kDevice, "illegal access");
  };
  start({.max_seqs = 1}, {.on_device_fault = [&](const std::string& why) { fault.set_value(why); }});
  Handle running = submit(prompt_of(5), 60), waiting = submit(prompt_of(5, 2), 6);
  gate.open();
  EXPECT_EQ(fault.get_future().get(), "illegal access");
  EXPECT_EQ(running.drain().last.finish, FinishReason::kError);
  EXPECT_EQ(waiting.drain().last.finish, FinishReason::kError);
  try {
    submit(prompt_of(5), 6);
    FAIL() << "taken after a device fault";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(e.what()).find("illegal access"), std::string::npos);
  }
}

// S-95: stop drains in a defined order, any number of times, from any thread.
TEST_F(LoopTest, S95_StopFinishesWhatRunsAndCancelsWhatWaits) {
  Gate gate;
  before_step_ = [&](std::int64_t step, const Batch&) {
    if (step == 2) gate.wait();
  };
  start({.max_seqs = 1});
  Handle running = submit(prompt_of(5), 12), waiting = submit(prompt_of(5, 2), 6);
  gate.wait_for_visitor();
  auto stopped = std::async(std::launch::async, [&] { loop_->stop(seconds(60)); });
  auto again = std::async(std::launch::async, [&] { loop_->stop(seconds(60)); });
  wait_until_refusing();
  gate.open();
  EXPECT_EQ(running.drain().tokens, solo(prompt_of(5), 12));
  EXPECT_EQ(running.last.finish, FinishReason::kLength);
  EXPECT_EQ(waiting.drain().last.finish, FinishReason::kCancelled);
  stopped.get();
  again.get();
  loop_->stop(milliseconds(0));
  EXPECT_THROW(submit(prompt_of(5), 1), Error);
  EXPECT_EQ(pool_->n_used(), 0);
}

TEST_F(LoopTest, StopAtTheDeadlineCancelsWhatRuns) {
  Gate gate;
  before_step_ = [&](std::int64_t step, const Batch&) {
    if (step == 2) gate.wait();
  };
  start({.n_blocks = 4096, .max_seq_len = 10000});
  Handle running = submit(prompt_of(5), 9000);
  gate.wait_for_visitor();
  auto stopped = std::async(std::launch::async, [&] { loop_->stop(milliseconds(0)); });
  wait_until_refusing();  // the deadline has passed by the next pass
  gate.open();
  EXPECT_EQ(running.drain().last.finish, FinishReason::kCancelled);
  EXPECT_LT(running.tokens.size(), 9000u);
  stopped.get();
  EXPECT_EQ(pool_->n_used(), 0);
}

// LK03: created, used and destroyed with requests in flight.
TEST_F(LoopTest, LK03_CreateAndDestroy) {
  for (int i = 0; i < 200; ++i) {
    start();
    std::vector<Handle> handles;
    for (int r = 0; r < 4; ++r) handles.push_back(submit(prompt_of(5, r), 50));
    loop_.reset();
    for (Handle& handle : handles) EXPECT_TRUE(handle.drain().last.finish);
  }
}

// AP20, MX01: gauges return to zero; a normal end is no abort; a cancelled one is.
TEST_F(LoopTest, CountersAndGauges) {
  Gate gate;
  before_step_ = [&](std::int64_t step, const Batch&) {
    if (step == 4) gate.wait();
  };
  start();
  submit(prompt_of(5), 3).drain();  // steps 1 to 3
  Handle cancelled = submit(prompt_of(5, 3), 100);
  gate.wait_for_visitor();
  cancelled.request->cancelled[0] = CancelCause::kCaller;
  gate.open();
  EXPECT_EQ(cancelled.drain().last.finish, FinishReason::kCancelled);
  loop_->stop(milliseconds(0));
  const std::string text = metrics_->render();
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 0\n",
        "vllm:num_requests_waiting{model_name=\"tiny\",engine=\"0\"} 0\n",
        "vllm:kv_cache_usage_perc{model_name=\"tiny\",engine=\"0\"} 0\n",
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"length\"} 1\n",
        "vllm:request_success_total{model_name=\"tiny\",engine=\"0\",finished_reason=\"abort\"} 1\n",
        "vllm:generation_tokens_total{model_name=\"tiny\",engine=\"0\"} 4\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"tiny\",engine=\"0\"} 2\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"tiny\",engine=\"0\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  // S-91: every reason exists from the start.
  for (int s = 2; s < kPrefillStatusCount; ++s) {
    const std::string reason(to_string(static_cast<PrefillStatus>(s)));
    EXPECT_NE(text.find("monograph_prefill_graph_fallbacks_total{model_name=\"tiny\",engine=\"0\",reason=\"" + reason +
                        "\"} 0\n"),
              std::string::npos)
        << reason;
  }
}

TEST_F(LoopTest, HeartbeatIsZeroWhileIdleAndGrowsInAStep) {
  Gate gate;
  before_step_ = [&](std::int64_t, const Batch&) { gate.wait(); };
  start();
  Handle handle = submit(prompt_of(3), 1);
  gate.wait_for_visitor();
  const double first = loop_->seconds_since_heartbeat();
  while (loop_->seconds_since_heartbeat() <= first) std::this_thread::yield();
  gate.open();
  handle.drain();
  while (loop_->seconds_since_heartbeat() > 0) std::this_thread::yield();
}

TEST_F(LoopTest, NotifierIsCalledAndStops) {
  start();
  Handle handle = submit(prompt_of(3), 4);
  std::mutex mutex;
  std::condition_variable called;
  int n_calls = 0;
  handle.channel->set_notifier([&] {
    const std::lock_guard lock(mutex);
    ++n_calls;
    called.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    called.wait(lock, [&] { return n_calls > 0; });
  }
  handle.drain();
  handle.channel->set_notifier({});
  const std::lock_guard lock(mutex);
  EXPECT_LE(n_calls, 5);
}

// The step log: one JSON line per step; a cancelled request's blocks are back before the next step's line ends.
TEST_F(LoopTest, StepLogShowsStepsAndFreedBlocks) {
  const std::string path = testing::TempDir() + "/step_log_test.jsonl";
  Gate both_are_there, gate;
  before_step_ = [&](std::int64_t step, const Batch&) {
    if (step == 1) both_are_there.wait();
    if (step == 3) gate.wait();
  };
  start({}, {.step_log = path});
  Handle kept = submit(prompt_of(5), 8, "kept");
  Handle cancelled = submit(prompt_of(5, 3), 100, "gone");
  both_are_there.open();
  gate.wait_for_visitor();
  cancelled.request->cancelled[0] = CancelCause::kCaller;
  gate.open();
  cancelled.drain();
  kept.drain();
  loop_.reset();
  std::ifstream file(path);
  std::string line;
  std::int64_t last_with_row = 0, freed_at = 0, previous = 0;
  while (std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_GE(json.at("step").get<std::int64_t>(), previous);
    previous = json.at("step");
    for (const auto& row : json.at("rows"))
      if (row.at("id") == "gone") last_with_row = previous;
    for (const auto& id : json.at("freed"))
      if (id == "gone#0") freed_at = previous;
    if (json.at("R") > 0) {
      EXPECT_TRUE(json.at("replayed"));
      EXPECT_EQ(json.at("rows").size(), json.at("R"));
    }
  }
  EXPECT_EQ(last_with_row, 3);
  EXPECT_LE(freed_at, 4);
  EXPECT_GT(freed_at, 0);
  std::remove(path.c_str());
}

/// The lines of a step log.
std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

bool holds(const nlohmann::json& step, const std::string& id) {
  return std::ranges::any_of(step.at("rows"), [&](const auto& row) { return row.at("id") == id; });
}

// AP11: a round may have two steps; who leaves during the first is not in the second, and its blocks are back.
TEST_F(LoopTest, AP11_ACancelDuringARoundsFirstStepIsSeenBeforeItsSecond) {
  const std::string path = testing::TempDir() + "/two_steps_test.jsonl";
  bool ten_decode = false, left = false;  // the engine thread's
  Handle gone;
  Gate all_decode;
  before_step_ = [&](std::int64_t, const Batch& batch) {
    if (batch.rows.size() == 10 && !std::exchange(ten_decode, true)) all_decode.wait();
    // The mixed step: the three oldest decode rows and the late prompt.
    if (!ten_decode || batch.rows.size() != 4 || !batch.rows[3].prefill || std::exchange(left, true)) return;
    gone.request->cancelled[0] = CancelCause::kCaller;
    gone.request->let_go = std::chrono::steady_clock::now().time_since_epoch().count();
  };
  start({.n_blocks = 128, .max_rows = 4, .max_seqs = 12, .chunk_size = 32}, {.step_log = path});
  std::vector<Handle> handles;
  for (int i = 0; i < 9; ++i) handles.push_back(submit(prompt_of(3, i), 40, "s" + std::to_string(i)));
  gone = submit(prompt_of(3, 9), 100, "gone");
  all_decode.wait_for_visitor();
  handles.push_back(submit(prompt_of(5, 50), 3, "late"));
  all_decode.open();
  gone.drain();
  for (Handle& handle : handles) handle.drain();
  loop_.reset();
  EXPECT_EQ(gone.last.finish, FinishReason::kCancelled);
  std::int64_t let_go_us = 0, freed_round = 0, late_round = 0;
  const auto lines = lines_of(path);
  for (const auto& line : lines) {
    if (line.contains("gone")) {
      EXPECT_EQ(line.at("gone").at(0).at("id"), "gone#0");
      let_go_us = line.at("gone").at(0).at("at_us");
      freed_round = line.at("round");
    }
    if (holds(line, "late") && late_round == 0) late_round = line.at("round");
  }
  ASSERT_GT(let_go_us, 0);
  EXPECT_EQ(freed_round, late_round) << "not in the round whose first step it left in";
  for (const auto& line : lines) {
    if (!holds(line, "gone")) continue;
    EXPECT_LE(line.at("at_us").get<std::int64_t>(), let_go_us) << line;
  }
  std::remove(path.c_str());
}

TEST_F(LoopTest, StepLogThatCannotBeOpenedIsAnError) {
  try {
    start({}, {.step_log = "/nonexistent/folder/steps"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.field(), "step-log");
  }
}

}  // namespace
}  // namespace monograph
