#include "engine/loop.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "engine/batch_builder.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

constexpr const char* kStopping = "the engine is stopping";

/// Never empty: an empty failure is none.
std::string text_of(const std::exception& e) { return *e.what() != '\0' ? e.what() : "an exception without a message"; }

}  // namespace

Loop::Loop(LoopConfig config, Runner& runner, BlockPool& pool, Metrics& metrics, Log log)
    : config_(std::move(config)),
      runner_(runner),
      pool_(pool),
      metrics_(metrics),
      log_(std::move(log)),
      step_log_(config_.step_log),
      inbox_(config_.max_queue, config_.spin),
      scheduler_(config_.scheduler, pool),
      heartbeat_ns_(now_ns()),
      stop_at_ns_(std::numeric_limits<std::int64_t>::max()) {
  metrics_.write([&](MetricValues& v) {
    v.blocks_total = pool_.capacity();
    v.runner = runner_.stats();
    v.captures = runner_.captures();
  });
  thread_ = std::thread([this] { run(); });
}

Loop::~Loop() { stop(std::chrono::milliseconds(0)); }

void Loop::run() {
  while (take_work()) {
    const auto start = Clock::now();
    Round round = scheduler_.plan(start);
    inbox_.leave(static_cast<int>(std::ranges::count(round.admitted, 0, &Sequence::n_preemptions)));
    emit(std::move(round.ended));
    count_time(StepPhase::kPlan, start);
    for (std::span<StepPlan> rest(round.steps); !rest.empty() && !faulted_; rest = rest.subspan(1)) run_next_step(rest);
    check_accounts();
    finish_pass();
  }
  emit(scheduler_.end_all(faulted_ ? FinishReason::kError : FinishReason::kCancelled, kStopping));
  finish_pass();
}

/// Idle waiting blocks on the inbox. False when the loop has to end.
bool Loop::take_work() {
  // Read before taking: what was pushed before the close is among `arrived`, so no request is left behind without an
  // end.
  const bool closed = inbox_.closed();
  idle_ = scheduler_.idle() && !faulted_;
  auto arrived = inbox_.take(/*wait=*/idle_);
  heartbeat_ns_ = now_ns();
  idle_ = false;
  for (auto& sequence : arrived) scheduler_.add(std::move(sequence));
  return !faulted_ && !(closed && wind_down());
}

/// The order of stopping: what never began is cancelled, what runs goes on to the deadline. True when it is over.
bool Loop::wind_down() {
  emit(scheduler_.end_waiting(FinishReason::kCancelled, kStopping));
  return scheduler_.idle() || now_ns() >= stop_at_ns_;
}

/// The first of the steps that are left of a round.
void Loop::run_next_step(std::span<StepPlan> rest) {
  const auto start = Clock::now();
  emit(scheduler_.drop_gone(rest, start));
  const StepPlan& step = rest.front();
  if (step.rows.empty()) return;
  const std::string rows = step_log_.enabled() ? step_log_.rows(step) : std::string();
  std::string failure;
  bool device_failed = false;
  StepResult result;
  try {
    result = execute(step);
  } catch (const Error& e) {
    failure = text_of(e);
    device_failed = e.code() == ErrorCode::kDevice;
  } catch (const std::exception& e) {
    failure = text_of(e);
  } catch (...) {
    failure = "an exception of an unknown type";
  }
  const auto done = Clock::now();
  emit(failure.empty() ? scheduler_.commit(step, result, done) : scheduler_.fail(step, "a step failed: " + failure));
  count_time(StepPhase::kCommit, done);
  if (!failure.empty()) count_failure(step, failure);
  if (failure.empty()) last_step_ = result.step;
  if (step_log_.enabled()) step_log_.step(n_rounds_, step, rows, result, failure, start, done, scheduler_.take_freed());
  if (device_failed) device_fault(failure);
}

StepResult Loop::execute(const StepPlan& step) {
  const auto start = Clock::now();
  const Batch batch = build_batch(step, config_.position_factor);
  count_time(StepPhase::kBuild, start);
  const auto built = Clock::now();
  StepResult result = runner_.run(batch);
  count_time(StepPhase::kRun, built);
  result.launch_us += 1e6 * seconds(built - start);
  return result;
}

void Loop::emit(std::vector<Delivery> deliveries) {
  if (deliveries.empty()) return;
  const auto now = Clock::now();
  metrics_.write([&](MetricValues& values) {
    for (const Delivery& delivery : deliveries) count_event(values, delivery, now);
  });
  for (Delivery& delivery : deliveries) {
    if (delivery.ended && !delivery.ended->admitted) inbox_.leave(1);
    delivery.sequence->last_token = now;
    delivery.sequence->channel->push(std::move(delivery.event));
  }
}

void Loop::count_event(MetricValues& v, const Delivery& delivery, TimePoint now) {
  const Sequence& s = *delivery.sequence;
  if (delivery.event.token) {
    ++v.generation_tokens;
    if (s.n_output() == 1) {
      v.prompt_tokens += s.prompt_len;
      v.time_to_first_token.observe(seconds(now - s.submitted));
      v.queue_time.observe(seconds(*s.admitted - s.submitted));
      v.prefill_time.observe(seconds(now - *s.admitted));
    } else if (s.last_token) {
      v.inter_token_latency.observe(seconds(now - *s.last_token));
    }
  }
  if (!delivery.event.finish) return;
  switch (*delivery.event.finish) {
    case FinishReason::kStop:
      ++v.finished_stop;
      break;
    case FinishReason::kLength:
      ++v.finished_length;
      break;
    case FinishReason::kError:
      ++v.finished_error;
      break;
    case FinishReason::kDeadline:
      ++v.finished_abort;
      break;
    case FinishReason::kCancelled:
      ++(delivery.cause == CancelCause::kStopString ? v.finished_stop : v.finished_abort);
      break;
  }
  v.e2e_latency.observe(seconds(now - s.submitted));
  v.request_prompt_tokens.observe(s.prompt_len);
  v.request_generation_tokens.observe(s.n_output());
  v.request_params_max_tokens.observe(s.max_tokens);
  if (s.index == 0) v.request_params_n.observe(static_cast<double>(s.request->live.size()));
  if (!s.first_token) return;
  v.decode_time.observe(seconds(now - *s.first_token));
  v.inference_time.observe(seconds(now - *s.admitted));
}

void Loop::count_time(StepPhase phase, TimePoint start) {
  const double spent = seconds(Clock::now() - start);
  metrics_.write([&](MetricValues& v) { v.phase_seconds[static_cast<std::size_t>(phase)] += spent; });
}

void Loop::count_failure(const StepPlan& step, const std::string& why) {
  metrics_.write([&](MetricValues& v) { ++v.failed_steps; });
  if (const auto count = failures_.next())
    log_.error("a step of " + std::to_string(step.n_tokens()) + " tokens in " + std::to_string(step.rows.size()) +
               " rows failed; its requests end with an error: " + why + " count=" + std::to_string(count));
}

/// A test stops here. In service the sums are looked at, and the process lives on without what they say of blocks.
/// (R16)
void Loop::check_accounts() {
  if (config_.audit) return scheduler_.check_invariants();
  if (scheduler_.accounts_hold()) return;
  metrics_.write([](MetricValues& v) { ++v.broken_kv_accounts; });
  const std::string line = "the accounts of KV blocks do not add up: " + std::to_string(pool_.n_used()) + " used, " +
                           std::to_string(pool_.n_cached()) + " cached, " + std::to_string(pool_.n_available()) +
                           " available of " + std::to_string(pool_.capacity()) +
                           "; running requests end, every prefix is forgotten";
  if (const auto count = broken_accounts_.next()) log_.error(line + " count=" + std::to_string(count));
  emit(scheduler_.quarantine(line));
}

/// Gauges and copies of others' counters, so that a scrape sees the state after this pass.
void Loop::finish_pass() {
  ++n_rounds_;
  if (auto freed = scheduler_.take_freed(); step_log_.enabled() && !freed.empty())
    step_log_.freed_only(n_rounds_, last_step_, freed);
  metrics_.write([&](MetricValues& v) {
    v.n_running = scheduler_.n_running();
    v.n_waiting = scheduler_.n_waiting();
    v.blocks_used = pool_.n_used();
    v.blocks_cached = pool_.n_cached();
    v.scheduler = scheduler_.stats();
    v.runner = runner_.stats();
  });
  heartbeat_ns_ = now_ns();
}

void Loop::device_fault(const std::string& why) {
  faulted_ = true;
  const std::string line = "the device failed and does not recover: " + why;
  inbox_.close(line);
  emit(scheduler_.end_all(FinishReason::kError, line));
  log_.error(line);
  if (config_.on_device_fault) return config_.on_device_fault(why);
  // Callers get a moment to pass the errors on; a supervisor starts the process again.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::terminate();
}

void Loop::stop(std::chrono::milliseconds deadline) {
  const std::int64_t at = now_ns() + std::chrono::duration_cast<std::chrono::nanoseconds>(deadline).count();
  std::int64_t current = stop_at_ns_;
  while (at < current && !stop_at_ns_.compare_exchange_weak(current, at)) {
  }
  inbox_.close(kStopping);
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

double Loop::seconds_since_heartbeat() const {
  if (idle_) {
    const auto oldest = inbox_.oldest();
    return oldest ? std::max(0.0, seconds(Clock::now() - *oldest)) : 0.0;
  }
  return 1e-9 * static_cast<double>(std::max<std::int64_t>(0, now_ns() - heartbeat_ns_));
}

}  // namespace monograph
