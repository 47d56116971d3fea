// Who runs when: admits, preempts, plans rounds into steps, and takes a step's results back. Pure host code: time comes
// in as a value, so tests simulate it.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/block_pool.h"
#include "engine/sequence.h"
#include "graph/batch.h"

namespace monograph {

struct SchedulerConfig {
  int chunk_size = 2048;        ///< Most tokens of one step with prefill work.
  bool chunked_prefill = true;  ///< Off: a prompt runs in one step, however long.
  int max_rows = 64;            ///< Most rows of one step with prefill work (Bmax).
  int max_seqs = 256;           ///< Sequences running at once, and most rows of a decode step.
  int block_size = 64;
  bool prefix_cache = true;
  int vocab_size = 0;       ///< Sampled ids lie below.
  int position_factor = 0;  ///< P of the model: above 0, positions are part of what K and V depend on.
};

struct PlannedRow {
  Sequence* sequence = nullptr;
  int n_tokens = 0;
  bool prefill = false;
  bool samples = false;  ///< Every row but a chunk that is not the last.
};

struct StepPlan {
  std::vector<PlannedRow> rows;
  int n_tokens() const;
};

/// An event for a sequence's channel. `ended` owns the sequence when the event is its last.
struct Delivery {
  Sequence* sequence = nullptr;
  TokenEvent event;
  CancelCause cause = CancelCause::kNone;
  std::unique_ptr<Sequence> ended;
};

struct Round {
  std::vector<StepPlan> steps;
  std::vector<Delivery> ended;      ///< Cancelled or past their deadline.
  std::vector<Sequence*> admitted;  ///< For the first time or again.
  std::vector<Sequence*> preempted;
};

/// A sequence whose caller let go of it, and when; whether or not it held blocks.
struct GoneCaller {
  std::string name;  ///< "id#index"
  TimePoint let_go;
};

struct Freed {
  std::vector<std::string> names;  ///< "id#index" of the sequences whose blocks went back to the pool.
  std::vector<GoneCaller> gone;
  bool empty() const { return names.empty() && gone.empty(); }
};

struct SchedulerStats {
  std::int64_t n_preemptions = 0;
  std::int64_t n_prefix_queries = 0, n_prefix_hits = 0;  ///< Prompt tokens asked for and found at first admissions.
  std::int64_t n_bad_logits = 0;                         ///< Sequences ended by a NaN in their logits.
};

class Scheduler {
 public:
  /// The pool outlives the scheduler.
  Scheduler(const SchedulerConfig& config, BlockPool& pool);
  ~Scheduler();

  /// Takes a sequence into the waiting line. It must fit the pool: see blocks_needed().
  void add(std::unique_ptr<Sequence> sequence);
  /// Blocks that a sequence of this length can come to hold; its last token is never computed.
  int blocks_needed(int prompt_len, int max_tokens) const;

  bool idle() const { return waiting_.empty() && running_.empty(); }
  int n_running() const { return static_cast<int>(running_.size()); }
  int n_waiting() const { return static_cast<int>(waiting_.size()); }
  const SchedulerStats& stats() const { return stats_; }

  /// One round: decode rows first, then prefill chunks in order of arrival. The steps are run in order; each is then
  /// committed or failed before the next round is planned. Every step has work for each of its rows; a sequence is in
  /// one step at most.
  Round plan(TimePoint now);
  /// Ends what was cancelled, or passed its deadline, since the round was planned, and takes it out of the steps that
  /// are still to run. Right before each step, so that a round of two frees blocks as soon as a round of one.
  std::vector<Delivery> drop_gone(std::span<StepPlan> steps, TimePoint now);
  /// What the step gave: tokens, ends, blocks to share.
  std::vector<Delivery> commit(const StepPlan& step, const StepResult& result, TimePoint now);
  /// The step threw: its sequences end, nothing it wrote is shared.
  std::vector<Delivery> fail(const StepPlan& step, const std::string& why);
  /// Ends what was never admitted.
  std::vector<Delivery> end_waiting(FinishReason reason, const std::string& why);
  /// Ends everything that runs or waits.
  std::vector<Delivery> end_all(FinishReason reason, const std::string& why);

  /// What ended since the last call; for the step log.
  Freed take_freed();
  /// Whether the sums of pool and sequences agree. No look at single blocks: for every round in service. (R16)
  bool accounts_hold() const;
  /// When they do not, nobody knows whose blocks are whose: ends what runs, forgets every prefix and starts the pool
  /// afresh. What waits goes on.
  std::vector<Delivery> quarantine(const std::string& why);
  /// CHECKs the sums, every block and every sequence.
  void check_invariants() const;

 private:
  using Line = std::deque<std::unique_ptr<Sequence>>;

  std::vector<Sequence*> gone(TimePoint now) const;
  Delivery end_gone(Sequence& sequence, TimePoint now);
  std::vector<PlannedRow> plan_decodes(Round& round);
  std::vector<PlannedRow> plan_prefills(int n_decodes, TimePoint now, Round& round);
  std::optional<PlannedRow> next_chunk(Sequence& sequence, int budget, bool first) const;
  bool grow(Sequence& sequence, Round& round);
  void preempt(Sequence& sequence, Round& round);
  bool admit(Sequence& sequence, TimePoint now);
  bool acquire_blocks(Sequence& sequence);
  bool waits_for_sibling(const Sequence& sequence) const;
  std::vector<TokenId> block_content(const Sequence& sequence, int index) const;
  void publish_blocks(Sequence& sequence);
  void release_blocks(Sequence& sequence);
  Delivery take_token(Sequence& sequence, const SampledRow& row, TimePoint now);
  Delivery end_without_token(Sequence& sequence, TokenId found);
  Delivery end(Sequence& sequence, FinishReason reason, std::string why = {});
  int full_blocks(int n_tokens) const { return n_tokens / config_.block_size; }
  int blocks_for(int n_tokens) const { return (n_tokens + config_.block_size - 1) / config_.block_size; }

  SchedulerConfig config_;
  BlockPool& pool_;
  Line waiting_, running_;  // both in order of arrival
  std::vector<int> history_rows_;
  std::int64_t n_arrived_ = 0;
  SchedulerStats stats_;
  Freed freed_;
};

}  // namespace monograph
