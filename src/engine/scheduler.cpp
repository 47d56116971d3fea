#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "engine/positions.h"

namespace monograph {
namespace {

constexpr TokenId kBadLogits = -2;  // of SampledRow

bool by_arrival(const std::unique_ptr<Sequence>& a, const std::unique_ptr<Sequence>& b) {
  return a->arrival < b->arrival;
}

std::string name_of(const Sequence& sequence) { return sequence.request_id + "#" + std::to_string(sequence.index); }

std::unique_ptr<Sequence> take_from(std::deque<std::unique_ptr<Sequence>>& line, const Sequence& sequence) {
  const auto at = std::ranges::find(line, &sequence, &std::unique_ptr<Sequence>::get);
  CHECK(at != line.end());
  auto taken = std::move(*at);
  line.erase(at);
  return taken;
}

void insert_by_arrival(std::deque<std::unique_ptr<Sequence>>& line, std::unique_ptr<Sequence> sequence) {
  const auto at = std::upper_bound(line.begin(), line.end(), sequence, by_arrival);
  line.insert(at, std::move(sequence));
}

}  // namespace

int StepPlan::n_tokens() const {
  int n = 0;
  for (const PlannedRow& row : rows) n += row.n_tokens;
  return n;
}

Scheduler::Scheduler(const SchedulerConfig& config, BlockPool& pool) : config_(config), pool_(pool) {
  CHECK(config.chunk_size >= 1 && config.max_rows >= 1 && config.max_seqs >= 1 && config.block_size >= 1);
  for (int row = config.max_seqs - 1; row >= 0; --row) history_rows_.push_back(row);
}

Scheduler::~Scheduler() {
  for (const auto& sequence : running_) release_blocks(*sequence);
}

int Scheduler::blocks_needed(int prompt_len, int max_tokens) const { return blocks_for(prompt_len + max_tokens - 1); }

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  CHECK(sequence->prompt_len >= 1 && sequence->prompt_len == sequence->n_tokens() && sequence->max_tokens >= 1);
  CHECK(blocks_needed(sequence->prompt_len, sequence->max_tokens) <= pool_.capacity());
  sequence->arrival = ++n_arrived_;
  waiting_.push_back(std::move(sequence));
}

Round Scheduler::plan(TimePoint now) {
  Round round;
  for (Sequence* sequence : gone(now)) round.ended.push_back(end_gone(*sequence, now));
  std::vector<PlannedRow> decodes = plan_decodes(round);
  StepPlan mixed{plan_prefills(static_cast<int>(decodes.size()), now, round)};
  if (!mixed.rows.empty()) {
    // Decode rows fill what the chunks left; those that do not fit have a step of their own in this round.
    const int room =
        std::min(config_.max_rows - static_cast<int>(mixed.rows.size()), config_.chunk_size - mixed.n_tokens());
    const int n_mixed = std::clamp(room, 0, static_cast<int>(decodes.size()));
    mixed.rows.insert(mixed.rows.begin(), decodes.begin(), decodes.begin() + n_mixed);
    decodes.erase(decodes.begin(), decodes.begin() + n_mixed);
    round.steps.push_back(std::move(mixed));
  }
  if (!decodes.empty()) round.steps.push_back({std::move(decodes)});
  return round;
}

/// Cancels and deadlines are read between steps, never while one runs: its rows live until it is committed.
std::vector<Sequence*> Scheduler::gone(TimePoint now) const {
  std::vector<Sequence*> found;
  for (const Line* line : {&running_, &waiting_})
    for (const auto& sequence : *line)
      if (sequence->cancel_cause() != CancelCause::kNone || (sequence->deadline && now >= *sequence->deadline))
        found.push_back(sequence.get());
  return found;
}

std::vector<Delivery> Scheduler::drop_gone(std::span<StepPlan> steps, TimePoint now) {
  std::vector<Delivery> deliveries;
  for (Sequence* sequence : gone(now)) {
    for (StepPlan& step : steps)
      std::erase_if(step.rows, [&](const PlannedRow& row) { return row.sequence == sequence; });
    deliveries.push_back(end_gone(*sequence, now));
  }
  return deliveries;
}

Delivery Scheduler::end_gone(Sequence& sequence, TimePoint now) {
  const CancelCause cause = sequence.cancel_cause();
  if (cause == CancelCause::kCaller) {
    // The flag is set before the time is; a time that is not there yet is about now.
    const TimePoint let_go{TimePoint::duration(sequence.request->let_go.load())};
    freed_.gone.push_back({name_of(sequence), let_go == TimePoint{} ? now : let_go});
  }
  Delivery delivery = end(sequence, cause != CancelCause::kNone ? FinishReason::kCancelled : FinishReason::kDeadline);
  delivery.cause = cause;
  return delivery;
}

/// Oldest first: a sequence that finds no block preempts the youngest, which has not been planned yet (or is itself).
std::vector<PlannedRow> Scheduler::plan_decodes(Round& round) {
  std::vector<Sequence*> ready;
  for (const auto& sequence : running_)
    if (!sequence->prefilling) ready.push_back(sequence.get());
  std::vector<PlannedRow> rows;
  for (Sequence* sequence : ready)
    if (sequence->running && grow(*sequence, round)) rows.push_back({sequence, 1, false, true});
  return rows;
}

/// Makes sure that the next token has a place. False if the sequence itself was preempted.
bool Scheduler::grow(Sequence& sequence, Round& round) {
  while (static_cast<int>(sequence.blocks.size()) < blocks_for(sequence.n_tokens())) {
    if (auto block = pool_.allocate(1)) {
      sequence.blocks.push_back(block->front());
      continue;
    }
    Sequence& youngest = *running_.back();
    preempt(youngest, round);
    if (&youngest == &sequence) return false;
  }
  return true;
}

/// Back to the waiting line; it will be computed again, from the prefix cache where that still holds its blocks.
void Scheduler::preempt(Sequence& sequence, Round& round) {
  release_blocks(sequence);
  history_rows_.push_back(std::exchange(sequence.history_row, -1));
  sequence.running = false;
  sequence.prefilling = true;
  ++sequence.n_preemptions;
  ++stats_.n_preemptions;
  round.preempted.push_back(&sequence);
  insert_by_arrival(waiting_, take_from(running_, sequence));
}

/// Chunks of what runs, then of what can be admitted, in order of arrival. Decode rows keep a place in the step, up to
/// half of its tokens and all rows but one, so neither kind of work starves the other.
std::vector<PlannedRow> Scheduler::plan_prefills(int n_decodes, TimePoint now, Round& round) {
  int budget = config_.chunk_size - std::min({n_decodes, config_.max_rows - 1, config_.chunk_size / 2});
  std::vector<PlannedRow> rows;
  const auto take = [&](Sequence& sequence) {
    const auto row = next_chunk(sequence, budget, rows.empty());
    if (!row) return false;
    budget -= row->n_tokens;
    rows.push_back(*row);
    return true;
  };
  const auto full = [&] { return budget <= 0 || static_cast<int>(rows.size()) == config_.max_rows; };
  for (const auto& sequence : running_) {
    if (full()) return rows;
    if (sequence->prefilling && !take(*sequence)) return rows;
  }
  std::size_t next = 0;
  while (next < waiting_.size() && !full() && n_running() < config_.max_seqs) {
    Sequence& sequence = *waiting_[next];
    if (waits_for_sibling(sequence)) {
      ++next;
      continue;
    }
    if (!admit(sequence, now)) break;  // in order: what comes later may not take its blocks
    round.admitted.push_back(&sequence);
    if (!take(sequence)) break;
  }
  return rows;
}

/// What of the sequence fits the budget. Without chunking only a whole prompt is taken, or, first in its step, one that
/// is longer than any budget.
std::optional<PlannedRow> Scheduler::next_chunk(Sequence& sequence, int budget, bool first) const {
  int n = std::min(sequence.n_remaining(), budget);
  if (!config_.chunked_prefill && n < sequence.n_remaining()) {
    if (!first) return std::nullopt;
    n = sequence.n_remaining();
  }
  return PlannedRow{&sequence, n, true, n == sequence.n_remaining()};
}

bool Scheduler::waits_for_sibling(const Sequence& sequence) const {
  const RequestState& request = *sequence.request;
  return config_.prefix_cache && !request.prefilled && request.leader() != sequence.index &&
         full_blocks(sequence.prompt_len - 1) > 0;
}

bool Scheduler::admit(Sequence& sequence, TimePoint now) {
  if (!acquire_blocks(sequence)) return false;
  if (!sequence.n_reused) {
    sequence.n_reused = std::min(sequence.n_computed, sequence.prompt_len);
    if (config_.prefix_cache) {
      stats_.n_prefix_queries += sequence.prompt_len;
      stats_.n_prefix_hits += *sequence.n_reused;
    }
  }
  if (!sequence.admitted) sequence.admitted = now;
  CHECK(!history_rows_.empty());
  sequence.history_row = history_rows_.back();
  history_rows_.pop_back();
  sequence.history_is_short = sequence.n_computed > 0 && sequence.uses_penalties();
  sequence.running = true;
  insert_by_arrival(running_, take_from(waiting_, sequence));
  return true;
}

/// Blocks for every token the sequence has now: those the prefix cache still holds, and fresh ones for the rest.
/// Nothing is kept from an earlier attempt (KV05). At least one token is left to compute (KV03), always into a fresh
/// block, so a shared block is never written (KV20). One block for each running sequence stays free, else it would be
/// preempted soon.
bool Scheduler::acquire_blocks(Sequence& sequence) {
  CHECK(sequence.blocks.empty() && sequence.n_computed == 0 && sequence.n_published == 0);
  sequence.chain = {.salt = sequence.salt};
  const int most = config_.prefix_cache ? full_blocks(sequence.n_tokens() - 1) : 0;
  while (sequence.n_published < most) {
    const auto hit = pool_.acquire(sequence.chain, block_content(sequence, sequence.n_published));
    if (!hit) break;
    sequence.blocks.push_back(*hit);
    ++sequence.n_published;
  }
  const int fresh = blocks_for(sequence.n_tokens()) - sequence.n_published;
  std::optional<std::vector<BlockId>> blocks;
  if (fresh + n_running() <= pool_.n_available()) blocks = pool_.allocate(fresh);
  if (!blocks) {
    release_blocks(sequence);
    return false;
  }
  sequence.blocks.insert(sequence.blocks.end(), blocks->begin(), blocks->end());
  sequence.n_computed = sequence.n_published * config_.block_size;
  return true;
}

std::vector<Delivery> Scheduler::commit(const StepPlan& step, const StepResult& result, TimePoint now) {
  CHECK(result.rows.size() == step.rows.size());
  std::vector<Delivery> deliveries;
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const PlannedRow& row = step.rows[i];
    Sequence& sequence = *row.sequence;
    sequence.n_computed += row.n_tokens;
    sequence.history_is_short = false;
    if (row.prefill) sequence.record.add(result.status);
    publish_blocks(sequence);
    if (!row.samples) continue;
    deliveries.push_back(take_token(sequence, result.rows[i], now));
    deliveries.back().event.step = result.step;
  }
  return deliveries;
}

Delivery Scheduler::take_token(Sequence& sequence, const SampledRow& row, TimePoint now) {
  if (row.token < 0 || row.token >= config_.vocab_size) return end_without_token(sequence, row.token);
  sequence.prefilling = false;
  sequence.request->prefilled = true;
  sequence.tokens.push_back(row.token);
  if (!sequence.first_token) sequence.first_token = now;

  TokenEvent event;
  event.token = row.token;
  if (sequence.sampling.n_logprobs >= 0) {
    event.logprob = row.logprob;
    for (int i = 0; i < std::min(row.n_top, sequence.sampling.n_logprobs); ++i)
      event.top_logprobs.push_back({row.top_ids[i], row.top_logprobs[i]});
  }
  Delivery delivery{.sequence = &sequence};
  const bool stops = std::ranges::binary_search(sequence.end_ids, row.token);
  if (stops || sequence.n_output() >= sequence.max_tokens) {
    delivery = end(sequence, stops ? FinishReason::kStop : FinishReason::kLength);
    event.finish = delivery.event.finish;
    if (stops) event.stop_token = row.token;
  }
  event.index = sequence.index;
  event.prefill = sequence.prefill_info();
  delivery.event = std::move(event);
  return delivery;
}

/// Its K and V may hold the NaN that the logits showed, so nobody may find them again (SA15, KV02).
Delivery Scheduler::end_without_token(Sequence& sequence, TokenId found) {
  for (BlockId block : sequence.blocks) pool_.forget(block);
  if (found != kBadLogits)
    return end(
        sequence, FinishReason::kError,
        "the step gave token " + std::to_string(found) + ", expected 0.." + std::to_string(config_.vocab_size - 1));
  ++stats_.n_bad_logits;
  return end(sequence, FinishReason::kError,
             "the model's logits hold a NaN or an infinity at position " + std::to_string(sequence.n_tokens()) +
                 "; the sequence was ended");
}

std::vector<Delivery> Scheduler::fail(const StepPlan& step, const std::string& why) {
  std::vector<Delivery> deliveries;
  for (const PlannedRow& row : step.rows) deliveries.push_back(end(*row.sequence, FinishReason::kError, why));
  return deliveries;
}

std::vector<Delivery> Scheduler::end_waiting(FinishReason reason, const std::string& why) {
  std::vector<Sequence*> never_ran;
  for (const auto& sequence : waiting_)
    if (!sequence->admitted) never_ran.push_back(sequence.get());
  std::vector<Delivery> deliveries;
  for (Sequence* sequence : never_ran) deliveries.push_back(end(*sequence, reason, why));
  return deliveries;
}

std::vector<Delivery> Scheduler::end_all(FinishReason reason, const std::string& why) {
  std::vector<Delivery> deliveries;
  while (!running_.empty()) deliveries.push_back(end(*running_.back(), reason, why));
  while (!waiting_.empty()) deliveries.push_back(end(*waiting_.back(), reason, why));
  return deliveries;
}

/// All that the K and V of a full block depend on, besides what stands before it: its tokens, and their positions where
/// a request may choose them.
std::vector<TokenId> Scheduler::block_content(const Sequence& sequence, int index) const {
  const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(index) * config_.block_size;
  std::vector<TokenId> content(first, first + config_.block_size);
  if (config_.position_factor > 0)
    append_positions(content, sequence, index * config_.block_size, config_.block_size, config_.position_factor);
  return content;
}

/// A block is shared only once the step that filled it has succeeded (S-103).
void Scheduler::publish_blocks(Sequence& sequence) {
  if (!config_.prefix_cache) return;
  for (; sequence.n_published < full_blocks(sequence.n_computed); ++sequence.n_published)
    pool_.publish(sequence.blocks[static_cast<std::size_t>(sequence.n_published)], sequence.chain,
                  block_content(sequence, sequence.n_published));
}

/// Last to first, so that the cache forgets a prefix's end before its beginning.
void Scheduler::release_blocks(Sequence& sequence) {
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) pool_.release(*block);
  sequence.blocks.clear();
  sequence.n_computed = 0;
  sequence.n_published = 0;
}

Delivery Scheduler::end(Sequence& sequence, FinishReason reason, std::string why) {
  if (!sequence.blocks.empty()) freed_.names.push_back(name_of(sequence));
  release_blocks(sequence);
  if (sequence.history_row >= 0) history_rows_.push_back(std::exchange(sequence.history_row, -1));
  sequence.request->live[static_cast<std::size_t>(sequence.index)] = false;
  Delivery delivery{.sequence = &sequence};
  delivery.event.index = sequence.index;
  delivery.event.prefill = sequence.prefill_info();
  delivery.event.finish = reason;
  delivery.event.error = std::move(why);
  delivery.ended = take_from(sequence.running ? running_ : waiting_, sequence);
  return delivery;
}

Freed Scheduler::take_freed() { return std::exchange(freed_, {}); }

bool Scheduler::accounts_hold() const {
  std::int64_t n_held = 0;
  for (const auto& sequence : running_) n_held += static_cast<std::int64_t>(sequence->blocks.size());
  return pool_.counts_add_up() && pool_.n_references() == n_held;
}

std::vector<Delivery> Scheduler::quarantine(const std::string& why) {
  for (const auto& sequence : running_) sequence->blocks.clear();
  pool_.start_afresh();
  std::vector<Delivery> deliveries;
  while (!running_.empty()) deliveries.push_back(end(*running_.back(), FinishReason::kError, why));
  return deliveries;
}

void Scheduler::check_invariants() const {
  CHECK(accounts_hold());
  CHECK(n_running() + static_cast<int>(history_rows_.size()) == config_.max_seqs);
  pool_.check_invariants();
  for (const auto& sequence : running_) {
    const int n_blocks = static_cast<int>(sequence->blocks.size());
    CHECK(sequence->running && sequence->history_row >= 0);
    CHECK(sequence->n_computed < sequence->n_tokens() && blocks_for(sequence->n_computed) <= n_blocks);
    CHECK(sequence->n_published <= full_blocks(sequence->n_computed));
  }
  for (const auto& sequence : waiting_) CHECK(!sequence->running && sequence->blocks.empty());
  CHECK(std::ranges::is_sorted(running_, by_arrival) && std::ranges::is_sorted(waiting_, by_arrival));
}

}  // namespace monograph
