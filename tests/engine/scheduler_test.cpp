#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "engine/batch_builder.h"
#include "monograph/error.h"
#include "tests/engine/support/fake_runner.h"

namespace monograph {
namespace {

using Ids = std::vector<TokenId>;
using std::chrono::milliseconds;

/// What one sequence asked for and got.
struct Outcome {
  Ids prompt;
  SlotSampling sampling;
  int max_tokens = 0, min_tokens = 0;
  std::set<TokenId> end_ids;
  std::shared_ptr<RequestState> request;
  int index = 0;

  Ids output;
  std::optional<FinishReason> finish;
  std::string error;
  PrefillInfo prefill;
  int n_events = 0;
};

struct Ask {
  Ids prompt;
  int max_tokens = 4, min_tokens = 0, n = 1;
  std::uint64_t seed = 0;
  float temperature = 0, repetition_penalty = 1;
  std::set<TokenId> end_ids;
  std::string salt;
  std::optional<milliseconds> deadline;
};

/// Scheduler, pool and fake runner in one thread with virtual time.
class Simulation {
 public:
  explicit Simulation(FakeRunnerConfig config = {}, bool prefix_cache = true, bool chunked = true)
      : config_(config), pool_(config.n_blocks), runner_(config) {
    scheduler_ = std::make_unique<Scheduler>(SchedulerConfig{.chunk_size = config.chunk_size,
                                                             .chunked_prefill = chunked,
                                                             .max_rows = config.max_rows,
                                                             .max_seqs = config.max_seqs,
                                                             .block_size = config.block_size,
                                                             .prefix_cache = prefix_cache,
                                                             .vocab_size = config.vocab_size},
                                             pool_);
  }

  /// Returns the number of the first of the n sequences.
  int add(const Ask& ask) {
    auto request = std::make_shared<RequestState>(ask.n);
    const int first = static_cast<int>(outcomes.size());
    for (int i = 0; i < ask.n; ++i) {
      auto sequence = std::make_unique<Sequence>();
      sequence->request_id = std::to_string(first);
      sequence->index = i;
      sequence->request = request;
      sequence->tokens = ask.prompt;
      sequence->prompt_len = static_cast<int>(ask.prompt.size());
      sequence->sampling.seed = ask.seed + static_cast<std::uint64_t>(i);
      sequence->sampling.temperature = ask.temperature;
      sequence->sampling.repetition_penalty = ask.repetition_penalty;
      sequence->end_ids.assign(ask.end_ids.begin(), ask.end_ids.end());
      sequence->min_tokens = ask.min_tokens;
      sequence->max_tokens = ask.max_tokens;
      sequence->salt = ask.salt;
      if (ask.deadline) sequence->deadline = now + *ask.deadline;
      outcomes.push_back({.prompt = ask.prompt,
                          .sampling = sequence->sampling,
                          .max_tokens = ask.max_tokens,
                          .min_tokens = ask.min_tokens,
                          .end_ids = ask.end_ids,
                          .request = request,
                          .index = i});
      by_key_[{request.get(), i}] = first + i;
      scheduler_->add(std::move(sequence));
    }
    return first;
  }

  /// One round; returns what was planned, as copies that outlive the sequences.
  struct PlannedStep {
    int n_rows = 0, n_tokens = 0, n_prefill_rows = 0;
    std::vector<int> rows;  // numbers of the sequences
  };
  std::vector<PlannedStep> round() {
    std::vector<PlannedStep> planned;
    Round round = scheduler_->plan(now);
    take(std::move(round.ended));
    for (std::span<StepPlan> rest(round.steps); !rest.empty(); rest = rest.subspan(1)) {
      take(scheduler_->drop_gone(rest, now));
      const StepPlan& step = rest.front();
      if (step.rows.empty()) continue;
      PlannedStep seen{static_cast<int>(step.rows.size()), step.n_tokens()};
      for (const PlannedRow& row : step.rows) {
        seen.n_prefill_rows += row.prefill ? 1 : 0;
        seen.rows.push_back(by_key_.at({row.sequence->request.get(), row.sequence->index}));
      }
      planned.push_back(std::move(seen));
      try {
        const StepResult result = runner_.run(build_batch(step, 0));
        take(scheduler_->commit(step, result, now));
      } catch (const Error& e) {
        take(scheduler_->fail(step, e.what()));
      }
      scheduler_->check_invariants();
    }
    now += milliseconds(1);
    return planned;
  }

  void run_all(int most_rounds = 10000) {
    for (int i = 0; !scheduler_->idle(); ++i) {
      ASSERT_LT(i, most_rounds) << "no end in sight";
      round();
    }
  }

  void take(std::vector<Delivery> deliveries) {
    for (Delivery& d : deliveries) {
      Outcome& outcome = outcomes[static_cast<std::size_t>(by_key_.at({d.sequence->request.get(), d.sequence->index}))];
      ASSERT_FALSE(outcome.finish) << "an event after the last";
      ++outcome.n_events;
      if (d.event.token) outcome.output.push_back(*d.event.token);
      outcome.finish = d.event.finish;
      outcome.error = d.event.error;
      outcome.prefill = d.event.prefill;
      ASSERT_EQ(d.ended != nullptr, d.event.finish.has_value());
    }
  }

  Ids solo(const Outcome& o) const {
    return fake_output(o.prompt, o.sampling, o.max_tokens, o.min_tokens, o.end_ids, config_.vocab_size);
  }
  void expect_solo(int which) const {
    const Outcome& o = outcomes[static_cast<std::size_t>(which)];
    EXPECT_EQ(o.output, solo(o)) << "sequence " << which << " of " << o.prompt.size() << " tokens";
  }
  void expect_all_solo() const {
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const Outcome& o = outcomes[i];
      const Ids whole = solo(o);
      if (o.finish == FinishReason::kStop || o.finish == FinishReason::kLength) {
        EXPECT_EQ(o.output, whole) << "sequence " << i;
      } else {  // cut short: what it had is a prefix of it
        ASSERT_LE(o.output.size(), whole.size());
        EXPECT_TRUE(std::equal(o.output.begin(), o.output.end(), whole.begin())) << "sequence " << i;
      }
    }
  }
  void expect_pool_whole() const {
    EXPECT_EQ(pool_.n_used(), 0);
    EXPECT_EQ(pool_.n_available(), pool_.capacity());
  }

  BlockPool& pool() { return pool_; }
  FakeRunner& runner() { return runner_; }
  Scheduler& scheduler() { return *scheduler_; }

  std::vector<Outcome> outcomes;
  TimePoint now{};

 private:
  FakeRunnerConfig config_;
  BlockPool pool_;
  FakeRunner runner_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<std::pair<const RequestState*, int>, int> by_key_;
};

Ids prompt_of(int n, int start = 1) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back((start + i * 7) % 97);
  return ids;
}

TEST(Scheduler, OneRequestAlone) {
  Simulation sim;
  sim.add({.prompt = prompt_of(5), .max_tokens = 6});
  sim.run_all();
  sim.expect_solo(0);
  EXPECT_EQ(sim.outcomes[0].finish, FinishReason::kLength);
  EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_steps, 1);
  EXPECT_EQ(sim.outcomes[0].prefill.status, PrefillStatus::kReplayed);
  sim.expect_pool_whole();
}

// D2: exactly Cmax, Cmax, then the tail.
TEST(Scheduler, ChunksAreCutToTheStep) {
  Simulation sim({.n_blocks = 64, .max_seq_len = 200, .chunk_size = 16});
  sim.add({.prompt = prompt_of(39), .max_tokens = 1});
  EXPECT_EQ(sim.round().at(0).n_tokens, 16);
  EXPECT_EQ(sim.round().at(0).n_tokens, 16);
  EXPECT_EQ(sim.round().at(0).n_tokens, 7);
  EXPECT_TRUE(sim.scheduler().idle());
  EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_steps, 3);
  EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_replays, 3);
  sim.expect_solo(0);
}

TEST(Scheduler, DecodeRowsRideWithChunksAndTheStepIsFull) {
  Simulation sim({.n_blocks = 64, .max_seq_len = 200, .chunk_size = 16});
  sim.add({.prompt = prompt_of(3), .max_tokens = 40});
  sim.round();
  sim.add({.prompt = prompt_of(40, 2), .max_tokens = 2});
  const auto steps = sim.round();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].n_tokens, 16);
  EXPECT_EQ(steps[0].n_rows, 2);
  EXPECT_EQ(steps[0].n_prefill_rows, 1);
  sim.run_all();
  sim.expect_all_solo();
}

TEST(Scheduler, WaitingWorkFillsTheGap) {
  Simulation sim({.chunk_size = 16});
  for (int i = 0; i < 3; ++i) sim.add({.prompt = prompt_of(7, i), .max_tokens = 2});
  const auto steps = sim.round();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].n_tokens, 16);  // 7 + 7 + the first 2 of the third
  sim.run_all();
  sim.expect_all_solo();
}

TEST(Scheduler, DecodeRowsBeyondTheSlotsHaveTheirOwnStep) {
  Simulation sim({.n_blocks = 128, .max_rows = 4, .max_seqs = 12, .chunk_size = 32});
  for (int i = 0; i < 10; ++i) sim.add({.prompt = prompt_of(3, i), .max_tokens = 30});
  for (int i = 0; i < 3; ++i) sim.round();
  sim.add({.prompt = prompt_of(5, 50), .max_tokens = 3});
  const auto steps = sim.round();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].n_rows, 4);
  EXPECT_EQ(steps[0].n_prefill_rows, 1);
  EXPECT_EQ(steps[1].n_rows, 7);
  EXPECT_EQ(steps[1].n_prefill_rows, 0);
  sim.run_all();
  sim.expect_all_solo();
}

// KV01: partial chunks give no token; counts balance under preemption.
TEST(Scheduler, KV01_PartialChunksGiveNoToken) {
  std::int64_t n_preemptions = 0;
  for (int n_blocks = 140; n_blocks < 300; n_blocks += 4) {
    SCOPED_TRACE(n_blocks);
    Simulation sim({.n_blocks = 1 + n_blocks, .max_seq_len = 512, .chunk_size = 64});
    // Four answers grow beside the prompts; where they find no block, the prompt that is half done gives way.
    for (int i = 0; i < 4; ++i) sim.add({.prompt = prompt_of(8, i), .max_tokens = 200});
    for (int i = 4; i < 12; ++i) sim.add({.prompt = prompt_of(500, i), .max_tokens = 2});
    sim.run_all();
    for (const Outcome& o : sim.outcomes) EXPECT_EQ(o.n_events, o.max_tokens);
    sim.expect_all_solo();
    sim.expect_pool_whole();
    n_preemptions += sim.scheduler().stats().n_preemptions;
  }
  EXPECT_GT(n_preemptions, 20);
}

// KV03: a full hit leaves at least one token to compute.
TEST(Scheduler, KV03_SamePromptTwice) {
  for (int length : {1, 3, 4, 5, 16}) {
    Simulation sim;
    const int a = sim.add({.prompt = prompt_of(length), .max_tokens = 3});
    sim.run_all();
    const int b = sim.add({.prompt = prompt_of(length), .max_tokens = 3});
    sim.run_all();
    sim.expect_solo(a);
    sim.expect_solo(b);
    EXPECT_EQ(sim.outcomes[b].prefill.n_reused_tokens, (length - 1) / 4 * 4) << length;
    EXPECT_EQ(sim.outcomes[b].prefill.n_prefill_steps, 1);
  }
}

// KV05: what an earlier, failed admission found is not kept.
TEST(Scheduler, KV05_PrefixEvictedWhileWaiting) {
  Simulation sim({.n_blocks = 1 + 12, .max_seq_len = 64, .chunk_size = 16});
  const Ids shared = prompt_of(16);
  sim.add({.prompt = shared, .max_tokens = 1});
  sim.run_all();
  EXPECT_EQ(sim.pool().n_cached(), 4);
  sim.add({.prompt = prompt_of(30, 50), .max_tokens = 12});  // takes every block in the end
  sim.round();
  Ids longer = shared;
  for (TokenId id : prompt_of(20, 60)) longer.push_back(id);
  const int r = sim.add({.prompt = longer, .max_tokens = 4});
  sim.run_all();
  sim.expect_all_solo();
  EXPECT_LT(sim.outcomes[r].prefill.n_reused_tokens, 16);
  sim.expect_pool_whole();
}

// KV09: two requests with one prefix arrive during a chunked prefill; the fake runner checks that a sequence, and a
// block to write, is in a step once.
TEST(Scheduler, KV09_SamePrefixDuringChunkedPrefill) {
  Simulation sim({.n_blocks = 128, .max_seq_len = 200, .chunk_size = 16});
  sim.add({.prompt = prompt_of(60), .max_tokens = 4});
  sim.round();
  for (int i = 0; i < 2; ++i) sim.add({.prompt = prompt_of(60), .max_tokens = 4});
  sim.run_all();
  sim.expect_all_solo();
}

// KV10 on this side: a salt keeps prefixes apart.
TEST(Scheduler, KV10_SaltIsPartOfThePrefix) {
  Simulation sim;
  sim.add({.prompt = prompt_of(16), .max_tokens = 1, .salt = "a"});
  sim.run_all();
  const int other = sim.add({.prompt = prompt_of(16), .max_tokens = 1, .salt = "b"});
  const int same = sim.add({.prompt = prompt_of(16), .max_tokens = 1, .salt = "a"});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[other].prefill.n_reused_tokens, 0);
  EXPECT_EQ(sim.outcomes[same].prefill.n_reused_tokens, 12);
}

// KV20: prompts that part inside a block share only the whole blocks before it.
TEST(Scheduler, KV20_PromptsThatPartInsideABlock) {
  Simulation sim({.chunk_size = 32});
  Ids a = prompt_of(6), b = prompt_of(6);
  a.push_back(90);
  b.push_back(91);
  sim.add({.prompt = a, .max_tokens = 8});
  sim.round();
  const int second = sim.add({.prompt = b, .max_tokens = 8});
  sim.run_all();
  sim.expect_all_solo();
  EXPECT_EQ(sim.outcomes[second].prefill.n_reused_tokens, 4);
}

TEST(Scheduler, EarlierOutputIsFoundByTheNextTurn) {
  Simulation sim;
  sim.add({.prompt = prompt_of(6), .max_tokens = 10});
  sim.run_all();
  Ids next = prompt_of(6);
  next.insert(next.end(), sim.outcomes[0].output.begin(), sim.outcomes[0].output.end());
  const int turn = sim.add({.prompt = next, .max_tokens = 2});
  sim.run_all();
  sim.expect_solo(turn);
  EXPECT_EQ(sim.outcomes[turn].prefill.n_reused_tokens, 12);
}

TEST(Scheduler, SiblingsShareThePrompt) {
  Simulation sim({.n_blocks = 128, .max_seq_len = 200, .chunk_size = 16});
  sim.add({.prompt = prompt_of(40), .max_tokens = 5, .n = 4, .seed = 11, .temperature = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sim.round().at(0).n_rows, 1);  // the first alone: 16 + 16 + 8
  const auto steps = sim.round();
  EXPECT_EQ(steps.at(0).n_rows, 4);
  EXPECT_EQ(steps.at(0).n_tokens, 1 + 3 * 4);  // the rest computes the last block only
  sim.run_all();
  sim.expect_all_solo();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(sim.outcomes[i].prefill.n_reused_tokens, 36);
  EXPECT_NE(sim.outcomes[1].output, sim.outcomes[2].output);
}

TEST(Scheduler, SiblingsGoOnWhenTheFirstIsCancelled) {
  Simulation sim({.n_blocks = 128, .max_seq_len = 200, .chunk_size = 16});
  sim.add({.prompt = prompt_of(40), .max_tokens = 5, .n = 3});
  sim.round();
  sim.outcomes[0].request->cancelled[0] = CancelCause::kCaller;
  sim.run_all();
  EXPECT_EQ(sim.outcomes[0].finish, FinishReason::kCancelled);
  sim.expect_solo(1);
  sim.expect_solo(2);
}

TEST(Scheduler, SiblingsDoNotWaitWithoutAPrefixCache) {
  Simulation sim({.n_blocks = 128, .max_seq_len = 200, .chunk_size = 64}, /*prefix_cache=*/false);
  sim.add({.prompt = prompt_of(16), .max_tokens = 5, .n = 3});
  EXPECT_EQ(sim.round().at(0).n_rows, 3);
  sim.run_all();
  sim.expect_all_solo();
}

// Out of blocks: the youngest is preempted, computed again later, and no token is sent twice.
TEST(Scheduler, PreemptionChangesNoOutput) {
  for (const bool prefix_cache : {true, false}) {
    Simulation sim({.n_blocks = 1 + 12, .max_seq_len = 48, .chunk_size = 16}, prefix_cache);
    for (int i = 0; i < 5; ++i)
      sim.add({.prompt = prompt_of(6, i), .max_tokens = 30, .temperature = 1, .repetition_penalty = 1.5});
    sim.run_all();
    EXPECT_GT(sim.scheduler().stats().n_preemptions, 0);
    sim.expect_all_solo();
    EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_steps, 1) << "the oldest is never preempted";
    EXPECT_GT(sim.outcomes[4].prefill.n_prefill_steps, 1);
    for (const Outcome& o : sim.outcomes) EXPECT_EQ(o.finish, FinishReason::kLength);
    sim.expect_pool_whole();
  }
}

TEST(Scheduler, LargestRequestThatFitsRunsWhileOthersWait) {
  Simulation sim({.n_blocks = 1 + 10, .max_seq_len = 64, .chunk_size = 16});
  EXPECT_EQ(sim.scheduler().blocks_needed(30, 11), 10);
  EXPECT_EQ(sim.scheduler().blocks_needed(30, 12), 11);
  sim.add({.prompt = prompt_of(30), .max_tokens = 11});
  sim.add({.prompt = prompt_of(30, 3), .max_tokens = 11});
  sim.run_all();
  sim.expect_all_solo();
}

TEST(Scheduler, CancelFreesBlocksInTheNextRound) {
  Simulation sim;
  const int a = sim.add({.prompt = prompt_of(10), .max_tokens = 50});
  const int b = sim.add({.prompt = prompt_of(10, 5), .max_tokens = 50});
  const int waiting = sim.add({.prompt = prompt_of(10, 9), .max_tokens = 50});
  sim.outcomes[waiting].request->cancelled[0] = CancelCause::kCaller;
  sim.round();
  sim.round();
  const int used = sim.pool().n_used();
  sim.outcomes[a].request->cancelled[0] = CancelCause::kCaller;
  const auto steps = sim.round();
  for (const auto& step : steps)
    for (int row : step.rows) EXPECT_EQ(row, b);
  EXPECT_EQ(sim.outcomes[a].finish, FinishReason::kCancelled);
  EXPECT_EQ(sim.outcomes[waiting].finish, FinishReason::kCancelled);
  EXPECT_LT(sim.pool().n_used(), used);
  EXPECT_EQ(sim.scheduler().take_freed().names, std::vector<std::string>{"0#0"});
}

TEST(Scheduler, DeadlineEndsRunningAndWaiting) {
  Simulation sim({.max_seqs = 1});
  sim.add({.prompt = prompt_of(4), .max_tokens = 100, .deadline = milliseconds(5)});
  sim.add({.prompt = prompt_of(4), .max_tokens = 100, .deadline = milliseconds(3)});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[0].finish, FinishReason::kDeadline);
  EXPECT_EQ(sim.outcomes[0].output.size(), 5u);
  EXPECT_EQ(sim.outcomes[1].finish, FinishReason::kDeadline);
  EXPECT_EQ(sim.outcomes[1].n_events, 1);
  sim.expect_pool_whole();
}

// ST12: an end token as first token is an answer of no text, not an accident.
TEST(Scheduler, ST12_EndTokenFirst) {
  Simulation sim;
  const TokenId first = fake_next_token(prompt_of(5), {}, {}, 97);
  sim.add({.prompt = prompt_of(5), .max_tokens = 9, .n = 2, .end_ids = {first}});
  sim.run_all();
  for (const Outcome& o : sim.outcomes) {
    EXPECT_EQ(o.finish, FinishReason::kStop);
    EXPECT_EQ(o.output, Ids{first});
  }
}

TEST(Scheduler, MinTokensForbidsEndIds) {
  Simulation sim;
  const TokenId first = fake_next_token(prompt_of(5), {}, {}, 97);
  sim.add({.prompt = prompt_of(5), .max_tokens = 9, .min_tokens = 3, .end_ids = {first}});
  sim.run_all();
  EXPECT_GE(sim.outcomes[0].output.size(), 3u);
  sim.expect_solo(0);
}

// S-103: what a failed step wrote is never shared; its neighbours in other steps go on.
TEST(Scheduler, FailedStepSharesNothing) {
  Simulation sim;
  sim.runner().before_step = [](std::int64_t step, const Batch&) {
    if (step == 1) throw Error(ErrorCode::kInternal, "fault point 1");
  };
  const int failed = sim.add({.prompt = prompt_of(12), .max_tokens = 4});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[failed].finish, FinishReason::kError);
  EXPECT_EQ(sim.outcomes[failed].error, "fault point 1");
  EXPECT_EQ(sim.pool().n_cached(), 0);
  const int again = sim.add({.prompt = prompt_of(12), .max_tokens = 4});
  sim.run_all();
  sim.expect_solo(again);
  EXPECT_EQ(sim.outcomes[again].prefill.n_reused_tokens, 0);
}

// SA15: a NaN ends its own sequence, with a reason, and its blocks are not found again.
TEST(Scheduler, SA15_NanEndsOneSequence) {
  Simulation sim;
  sim.add({.prompt = prompt_of(12), .max_tokens = 6});
  sim.add({.prompt = prompt_of(4, 9), .max_tokens = 6});
  sim.runner().after_step = [](std::int64_t step, StepResult& result) {
    if (step == 3) result.rows[0].token = -2;
  };
  sim.run_all();
  EXPECT_EQ(sim.outcomes[0].finish, FinishReason::kError);
  EXPECT_NE(sim.outcomes[0].error.find("NaN"), std::string::npos);
  EXPECT_EQ(sim.outcomes[0].output.size(), 2u);
  EXPECT_EQ(sim.scheduler().stats().n_bad_logits, 1);
  sim.expect_solo(1);
  const int again = sim.add({.prompt = prompt_of(12), .max_tokens = 2});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[again].prefill.n_reused_tokens, 0);
}

// S-85: the fold over chunks: a later fallback replaces `replayed`, decode changes nothing.
TEST(Scheduler, StatusFoldsOverChunks) {
  Simulation sim({.max_seq_len = 200, .chunk_size = 16});
  sim.runner().after_step = [](std::int64_t step, StepResult& result) {
    if (step == 2) result.status = PrefillStatus::kInputMetadataInvalid;
  };
  sim.add({.prompt = prompt_of(40), .max_tokens = 4});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[0].prefill.status, PrefillStatus::kInputMetadataInvalid);
  EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_steps, 3);
  EXPECT_EQ(sim.outcomes[0].prefill.n_prefill_replays, 2);
}

// S-85, S-104: a recomputation after preemption that runs eager replaces `replayed`, also when a client has seen it; a
// sequence that was left alone keeps its own.
TEST(Scheduler, S104_PreemptionAfterTheHeader) {
  Simulation sim({.n_blocks = 1 + 16, .block_size = 4, .max_seq_len = 64, .chunk_size = 16}, /*prefix_cache=*/false);
  bool eager = false;
  sim.runner().after_step = [&](std::int64_t, StepResult& result) {
    if (eager && result.status == PrefillStatus::kReplayed) result.status = PrefillStatus::kEagerMeasuredFaster;
  };
  for (int i = 0; i < 3; ++i) sim.add({.prompt = prompt_of(8, i), .max_tokens = 24});
  while (sim.scheduler().stats().n_preemptions == 0) {
    sim.round();
    for (const Outcome& o : sim.outcomes)
      ASSERT_TRUE(o.n_events == 0 || o.prefill.status == PrefillStatus::kReplayed) << "not what the header says";
  }
  eager = true;
  sim.run_all();
  sim.expect_all_solo();
  EXPECT_EQ(sim.outcomes[0].prefill.status, PrefillStatus::kReplayed) << "the oldest is never preempted";
  const Outcome& youngest = sim.outcomes[2];
  EXPECT_EQ(youngest.prefill.status, PrefillStatus::kEagerMeasuredFaster);
  EXPECT_EQ(youngest.prefill.n_prefill_replays, 1);
  EXPECT_GT(youngest.prefill.n_prefill_steps, 1);
}

// KV17: neither prompts nor decodes starve.
TEST(Scheduler, KV17_NobodyStarves) {
  Simulation sim({.n_blocks = 2000, .max_rows = 8, .max_seqs = 70, .max_seq_len = 400, .chunk_size = 32});
  for (int i = 0; i < 64; ++i) sim.add({.prompt = prompt_of(4, i), .max_tokens = 300});
  for (int i = 0; i < 30; ++i) sim.round();
  const int prompt = sim.add({.prompt = prompt_of(100, 70), .max_tokens = 5});
  const auto n_before = sim.outcomes[0].output.size();
  int n_rounds = 0;
  while (sim.outcomes[prompt].output.empty() && n_rounds < 50) {
    sim.round();
    ++n_rounds;
  }
  EXPECT_LE(n_rounds, 7);  // 100 tokens at 16 or more a round
  EXPECT_EQ(sim.outcomes[0].output.size() - n_before, static_cast<std::size_t>(n_rounds)) << "decodes run every round";
}

// More decode rows than a step has tokens: half of the step is the prompt's.
TEST(Scheduler, KV17_DecodesDoNotFillTheWholeStep) {
  Simulation sim({.n_blocks = 200, .max_rows = 16, .max_seqs = 16, .max_seq_len = 100, .chunk_size = 8});
  for (int i = 0; i < 12; ++i) sim.add({.prompt = prompt_of(4, i), .max_tokens = 80});
  for (int i = 0; i < 20; ++i) sim.round();
  sim.add({.prompt = prompt_of(16, 70), .max_tokens = 5});
  const auto steps = sim.round();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].n_prefill_rows, 1);
  EXPECT_EQ(steps[0].n_tokens, 8);
  EXPECT_EQ(steps[0].n_rows, 5);  // 4 tokens of the prompt, 4 decode rows
  EXPECT_EQ(steps[1].n_rows, 8);
}

// In order of arrival: a small request does not overtake a large one that waits for blocks.
TEST(Scheduler, NobodyOvertakesWhoWaitsForBlocks) {
  Simulation sim({.n_blocks = 1 + 12, .max_seq_len = 64, .chunk_size = 64});
  sim.add({.prompt = prompt_of(20), .max_tokens = 8});
  sim.round();
  const int large = sim.add({.prompt = prompt_of(40, 30), .max_tokens = 2});
  const int small = sim.add({.prompt = prompt_of(2, 60), .max_tokens = 2});
  sim.round();
  EXPECT_EQ(sim.scheduler().n_running(), 1);
  while (sim.outcomes[static_cast<std::size_t>(small)].output.empty()) sim.round();
  EXPECT_FALSE(sim.outcomes[static_cast<std::size_t>(large)].output.empty());
  sim.run_all();
  sim.expect_all_solo();
}

// A sequence's last blocks are evicted before its first, without which they could not be found.
TEST(Scheduler, EvictionKeepsTheBeginningOfAPrefix) {
  Simulation sim({.n_blocks = 1 + 12, .max_seq_len = 64, .chunk_size = 64});
  sim.add({.prompt = prompt_of(40), .max_tokens = 1});  // 10 blocks
  sim.run_all();
  sim.add({.prompt = prompt_of(20, 50), .max_tokens = 1});  // 5 blocks, 3 of them evicted from the first
  sim.run_all();
  const int again = sim.add({.prompt = prompt_of(40), .max_tokens = 1});
  sim.run_all();
  EXPECT_EQ(sim.outcomes[static_cast<std::size_t>(again)].prefill.n_reused_tokens, 28);
}

TEST(Scheduler, ChunkOfOneStillServesEveryone) {
  Simulation sim({.n_blocks = 200, .max_rows = 3, .chunk_size = 1});
  for (int i = 0; i < 6; ++i) sim.add({.prompt = prompt_of(9, i), .max_tokens = 4});
  sim.run_all();
  sim.expect_all_solo();
}

TEST(Scheduler, WithoutChunkingPromptsAreWhole) {
  Simulation sim({.n_blocks = 128, .max_seq_len = 200, .chunk_size = 64}, true, /*chunked=*/false);
  for (int i = 0; i < 4; ++i) sim.add({.prompt = prompt_of(30, i), .max_tokens = 3});
  for (int i = 0; i < 3 && !sim.scheduler().idle(); ++i)
    for (const auto& step : sim.round()) EXPECT_LE(step.n_prefill_rows, 2);
  sim.run_all();
  sim.expect_all_solo();
  for (const Outcome& o : sim.outcomes) EXPECT_EQ(o.prefill.n_prefill_steps, 1);
}

// SA10: order of arrival changes no seeded output.
TEST(Scheduler, SA10_OrderOfArrivalChangesNothing) {
  std::mt19937_64 random(10);
  std::vector<int> order{0, 1, 2, 3, 4, 5, 6, 7};
  for (int trial = 0; trial < 24; ++trial) {
    std::ranges::shuffle(order, random);
    Simulation sim({.n_blocks = 1 + 30, .max_seq_len = 64, .chunk_size = 16});
    for (int i : order) {
      sim.add(
          {.prompt = prompt_of(5 + i, i), .max_tokens = 12, .seed = static_cast<std::uint64_t>(i), .temperature = 1});
      sim.round();
    }
    sim.run_all();
    sim.expect_all_solo();
  }
}

/// Random arrivals, settings, cancels, deadlines and faults, in pools from tight to ample: R22 in small. Every output
/// is the solo output, or a prefix of it if it was cut short. Every block is looked at after every step (R16). Returns
/// how many sequences there were.
std::int64_t simulate(std::uint64_t seed, int n_rounds) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  FakeRunnerConfig config{.n_blocks = 1 + 16 + below(40),
                          .block_size = 1 + below(6),
                          .max_rows = 1 + below(8),
                          .max_seqs = 1 + below(16),
                          .max_seq_len = 64,
                          .chunk_size = 1 + below(24),
                          .vocab_size = 97};
  config.n_blocks = std::max(config.n_blocks, 1 + (config.max_seq_len + config.block_size - 1) / config.block_size);
  const int n_scratch = below(3);
  config.n_blocks += n_scratch;
  Simulation sim(config, below(4) != 0);
  const auto scratch = *sim.pool().reserve(n_scratch);
  const bool faults = below(2) == 0;
  const auto cancel_one = [&] {
    const Outcome& o = sim.outcomes[static_cast<std::size_t>(below(static_cast<int>(sim.outcomes.size())))];
    o.request->cancelled[static_cast<std::size_t>(o.index)] =
        below(2) == 0 ? CancelCause::kCaller : CancelCause::kStopString;
  };
  sim.runner().before_step = [&](std::int64_t, const Batch&) {
    if (below(20) == 0) cancel_one();  // while a step runs
    if (faults && below(50) == 0) throw Error(ErrorCode::kInternal, "fault");
  };
  sim.runner().after_step = [&](std::int64_t, StepResult& result) {
    if (faults && below(200) == 0)
      result.rows[static_cast<std::size_t>(below(static_cast<int>(result.rows.size())))].token = -2;
  };
  std::vector<Ids> prefixes{prompt_of(12, 1), prompt_of(20, 2)};
  for (int step = 0; step < n_rounds; ++step) {
    if (below(3) == 0 && sim.scheduler().n_waiting() < 40) {
      Ask ask;
      if (below(2) == 0) {
        const Ids& from = prefixes[static_cast<std::size_t>(below(2))];
        ask.prompt.assign(from.begin(), from.begin() + 1 + below(static_cast<int>(from.size())));
      }
      for (int n = 1 + below(16); n > 0; --n) ask.prompt.push_back(below(4));
      ask.max_tokens = 1 + below(64 - static_cast<int>(ask.prompt.size()));
      ask.min_tokens = below(3) == 0 ? below(ask.max_tokens + 1) : 0;
      ask.n = below(5) == 0 ? 1 + below(4) : 1;
      ask.seed = random();
      ask.temperature = static_cast<float>(below(2));
      ask.repetition_penalty = below(2) == 0 ? 1.0f : 1.2f;
      if (below(2) == 0) ask.end_ids = {below(97), below(97), below(97)};
      if (below(8) == 0) ask.salt = "s";
      if (below(10) == 0) ask.deadline = milliseconds(below(100));
      sim.add(ask);
    }
    if (below(12) == 0 && !sim.outcomes.empty()) cancel_one();
    if (below(500) == 0) sim.pool().clear_cache();
    sim.round();
    if (testing::Test::HasFailure()) return 0;
  }
  sim.run_all();
  sim.expect_all_solo();
  sim.expect_pool_whole();
  for (const Outcome& o : sim.outcomes) EXPECT_TRUE(o.finish) << "a request without an end";
  sim.pool().release_reservation(scratch);
  EXPECT_EQ(sim.pool().n_available(), config.n_blocks - 1);
  return static_cast<std::int64_t>(sim.outcomes.size());
}

// MONOGRAPH_TEST_SEEDS=75000 makes ten million requests of it, for the long tier.
TEST(Scheduler, R16_R22_RandomTraffic) {
  const char* given = std::getenv("MONOGRAPH_TEST_SEEDS");
  const std::uint64_t n_seeds = given ? std::strtoull(given, nullptr, 10) : 50;
  std::int64_t n_requests = 0;
  for (std::uint64_t seed = 1; seed <= n_seeds && !HasFailure(); ++seed) n_requests += simulate(seed, 400);
  std::printf("%lld seeds, %lld requests\n", static_cast<long long>(n_seeds), static_cast<long long>(n_requests));
}

}  // namespace
}  // namespace monograph
