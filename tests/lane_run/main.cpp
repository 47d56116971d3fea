// Random traffic through scheduler, cache, graphs and a tiny model, in one thread with virtual time: arrivals, lengths,
// cancels, prefix hits, preemptions and faults, every invariant checked around every step, every answer compared with
// the same request alone and eager. Ends with one line of counts; the first violation ends it with exit code 1 and the
// command that shows it again.
//
//   lane_run [--device cpu|cuda|cuda_sm80] [--steps N] [--seconds S] [--seed N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "cache/reservation.h"
#include "engine/batch_builder.h"
#include "engine/scheduler.h"
#include "monograph/error.h"
#include "tests/lane_run/audit.h"
#include "tests/lane_run/requests.h"

namespace monograph::lane_run {
namespace {

constexpr int kPool = 1000;  ///< Requests that come again and again, under ever other schedules (R11).
constexpr int kEpoch = 250;
constexpr const char* kFault = "made to fail";

struct Counts {
  std::int64_t steps = 0, prefill_steps = 0, mixed_steps = 0, replays = 0, eager = 0, faults = 0;
  std::int64_t requests = 0, compared = 0, cut_short = 0, pool_answers = 0, epochs = 0;
  std::int64_t preemptions = 0, prefix_hits = 0, cancels = 0, rows = 0;
  std::map<std::string, std::int64_t> statuses;
};

/// Not by address: a seed must show the same run again.
struct ByArrival {
  bool operator()(const Sequence* a, const Sequence* b) const { return a->arrival < b->arrival; }
};

struct Running {
  std::uint64_t number = 0;
  std::shared_ptr<RequestState> request;
  Answer answer;
};

/// One configuration of the lane, for some steps.
class Epoch {
 public:
  Epoch(const World& world, Oracle& oracle, Random& random, Counts& counts)
      : world_(world), oracle_(oracle), random_(random), counts_(counts), audit_(options()), pool_(pool_blocks()) {
    scheduler_ = std::make_unique<Scheduler>(SchedulerConfig{.chunk_size = chunk_size_,
                                                             .chunked_prefill = chunked_,
                                                             .max_rows = max_rows_,
                                                             .max_seqs = max_seqs_,
                                                             .block_size = world.block_size,
                                                             .prefix_cache = !one_in(random, 5),
                                                             .vocab_size = audit_.lane().model().config().vocab_size,
                                                             .position_factor = world.position_factor},
                                             pool_);
  }

  void run(int n_steps) {
    const std::int64_t until = counts_.steps + n_steps;
    busy_ = one_in(random_, 4) ? 12 : 3;
    while (counts_.steps < until) {
      if (one_in(random_, busy_) || scheduler_->idle()) arrive();
      if (one_in(random_, 25)) cancel();
      if (one_in(random_, 400)) pool_.clear_cache();
      round();
    }
    while (!scheduler_->idle()) round();
    if (pool_.n_used() != 0) throw Violation("R16: blocks are in use with nobody there");
    counts_.preemptions += scheduler_->stats().n_preemptions;
    counts_.prefix_hits += scheduler_->stats().n_prefix_hits;
    counts_.rows += audit_.n_rows_compared();
    ++counts_.epochs;
  }

 private:
  testing::LaneOptions options() {
    testing::LaneOptions o = world_.lane();
    RunnerConfig& r = o.runner;
    const int unit = world_.max_seq_len / 16;  // 4 on the CPU, 16 on a GPU
    std::vector<int> ladder;
    for (int bucket : {1, 2, 4, 6, 8, 12})
      if (!one_in(random_, 3)) ladder.push_back(bucket * unit);
    if (ladder.empty()) ladder.push_back(4 * unit);
    r.prefill_buckets = ladder;
    max_seqs_ = 1 + below(random_, 10);
    max_rows_ = 1 + below(random_, std::min(max_seqs_ + 2, 8));
    r.max_seqs = max_seqs_;
    r.max_rows = max_rows_;
    r.decode_buckets = default_decode_ladder(max_seqs_);
    chunked_ = !one_in(random_, 5);
    chunk_size_ = std::min(ladder.back(), 1 + below(random_, ladder.back() + unit));
    r.max_eager_tokens = world_.max_seq_len;
    r.skip_padding = !one_in(random_, 3);
    if (one_in(random_, 2)) r.last_layer = one_in(random_, 4) ? LastLayer::kAll : LastLayer::kSampled;
    if (one_in(random_, 4)) {
      r.policy = GraphPolicy::kMeasured;
      for (int bucket : ladder) r.known_times[bucket] = {1.0 + below(random_, 10), 1.0 + below(random_, 10)};
    }
    if (one_in(random_, 16)) r.enable_prefill_graphs = false;
    if (one_in(random_, 24)) r.enable_graphs = false;
    o.warm_up = one_in(random_, 2);
    o.threads = one_in(random_, 6) ? 2 : 1;
    o.n_scratch = r.enable_graphs ? (ladder.back() + world_.block_size - 1) / world_.block_size : 0;
    if (one_in(random_, 12)) o.n_scratch = 0;  // degraded: scratch_kv_unavailable
    const int whole = world_.max_seq_len / world_.block_size;
    o.n_blocks = 1 + o.n_scratch + whole + below(random_, 2 * whole);
    return o;
  }
  int pool_blocks() const { return audit_.options().n_blocks - audit_.options().n_scratch; }

  void arrive() {
    if (scheduler_->n_waiting() > 20) return;
    Running running;
    running.number = one_in(random_, 2) ? random_() % kPool : kPool + random_() % (1ull << 40);
    const Ask ask = make_ask(world_, running.number);
    const int n = one_in(random_, 8) ? 2 : 1;  // siblings share the prompt
    auto request = std::make_shared<RequestState>(n);
    for (int i = 0; i < n; ++i) {
      auto sequence = make_sequence(ask);
      sequence->request_id = std::to_string(counts_.requests);
      sequence->index = i;
      sequence->request = request;
      running.request = request;
      const Sequence* added = sequence.get();
      scheduler_->add(std::move(sequence));
      running_[added] = running;
      ++counts_.requests;
    }
  }

  void cancel() {
    if (running_.empty()) return;
    const auto& [sequence, running] = *std::next(running_.begin(), below(random_, static_cast<int>(running_.size())));
    running.request->cancelled[static_cast<std::size_t>(sequence->index)] = CancelCause::kCaller;
    ++counts_.cancels;
  }

  void round() {
    Round round = scheduler_->plan({});
    take(std::move(round.ended));
    for (const StepPlan& step : round.steps) run_step(step);
    scheduler_->check_invariants();  // R16
  }

  void run_step(const StepPlan& step) {
    const Batch batch = build_batch(step, world_.position_factor);
    std::optional<testing::DevicePoint> fault;
    if (one_in(random_, 60)) {
      constexpr testing::DevicePoint kPoints[] = {testing::DevicePoint::kReplay, testing::DevicePoint::kReplayed,
                                                  testing::DevicePoint::kWait};
      fault = kPoints[below(random_, 3)];
    }
    const auto result = audit_.run(batch, fault);
    count(batch, result);
    take(result ? scheduler_->commit(step, *result, {}) : scheduler_->fail(step, kFault));
  }

  void count(const Batch& batch, const std::optional<StepResult>& result) {
    ++counts_.steps;
    counts_.faults += !result;
    if (!result) return;
    ++(result->replayed ? counts_.replays : counts_.eager);
    if (!batch.has_prefill()) return;
    ++counts_.prefill_steps;
    counts_.mixed_steps += std::ranges::any_of(batch.rows, [](const BatchRow& row) { return !row.prefill; });
    ++counts_.statuses[std::string(to_string(result->status))];
  }

  void take(std::vector<Delivery> deliveries) {
    for (Delivery& d : deliveries) {
      Running& running = running_.at(d.sequence);
      if (d.event.token) add(running.answer, d);
      if (d.ended) finish(d, running);
      if (d.ended) running_.erase(d.sequence);
    }
  }

  static void add(Answer& answer, const Delivery& d) {
    answer.ids.push_back(*d.event.token);
    answer.logprobs.push_back(d.event.logprob.value_or(0));
    for (const TokenLogprob& top : d.event.top_logprobs) answer.logprobs.push_back(top.logprob);
  }

  void finish(const Delivery& d, const Running& running) {
    const bool whole = d.event.finish == FinishReason::kStop || d.event.finish == FinishReason::kLength;
    const bool asked_for = d.event.finish == FinishReason::kCancelled
                               ? d.sequence->cancel_cause() == CancelCause::kCaller
                               : d.event.error == kFault;
    if (!whole && !asked_for) throw Violation("a request ended with: " + d.event.error);
    const bool of_pool = running.number < kPool;
    const Answer& expected = oracle_.answer(running.number, of_pool);
    ++(whole ? counts_.compared : counts_.cut_short);
    counts_.pool_answers += whole && of_pool;
    if (whole ? !(running.answer == expected) : !running.answer.begins(expected))
      throw Violation("D8: request " + std::to_string(running.number) + " has another answer than alone");
    const PrefillInfo& p = d.event.prefill;
    const bool all = p.n_prefill_steps > 0 && p.n_prefill_replays == p.n_prefill_steps;
    if (all != (p.status == PrefillStatus::kReplayed))
      throw Violation("I8: a request's status and its forwards differ");
  }

  const World& world_;
  Oracle& oracle_;
  Random& random_;
  Counts& counts_;
  bool chunked_ = true;
  int max_seqs_ = 1, max_rows_ = 1, chunk_size_ = 1, busy_ = 3;
  Audit audit_;
  BlockPool pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<const Sequence*, Running, ByArrival> running_;
};

struct Arguments {
  std::string device = "cpu";
  std::int64_t steps = 10000;
  double seconds = 1e9;
  std::uint64_t seed = 1;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--device" && !value.empty())
      a.device = value;
    else if (flag == "--steps" && std::atoll(value.c_str()) > 0)
      a.steps = std::atoll(value.c_str());
    else if (flag == "--seconds" && std::atof(value.c_str()) > 0)
      a.seconds = std::atof(value.c_str());
    else if (flag == "--seed" && !value.empty())
      a.seed = std::strtoull(value.c_str(), nullptr, 10);
    else
      throw Error(ErrorCode::kInvalidArgument, flag + " " + value +
                                                   ": expected --device cpu|cuda|cuda_sm80, --steps N, "
                                                   "--seconds S or --seed N");
  }
  return a;
}

std::vector<World> worlds(const std::string& device) {
  if (device != "cpu") return {{device, DType::kBF16, 0, 64, 256}, {device, DType::kBF16, 3, 64, 256}};
  return {{"cpu", DType::kF32, 0, 4, 64},
          {"cpu", DType::kF32, 3, 4, 64},
          {"cpu", DType::kBF16, 0, 4, 64},
          {"cpu", DType::kBF16, 3, 4, 64}};
}

void print(const Arguments& a, const Counts& c, double seconds) {
  std::printf(
      "lane_run device=%s seed=%llu steps=%lld seconds=%.0f epochs=%lld prefill_steps=%lld mixed_steps=%lld "
      "replays=%lld eager=%lld faults=%lld\n  requests=%lld compared_with_solo=%lld of_the_pool_of_%d=%lld "
      "cut_short=%lld cancels=%lld preemptions=%lld prefix_hit_tokens=%lld rows_replay_equals_eager=%lld\n  statuses:",
      a.device.c_str(), static_cast<unsigned long long>(a.seed), static_cast<long long>(c.steps), seconds,
      static_cast<long long>(c.epochs), static_cast<long long>(c.prefill_steps), static_cast<long long>(c.mixed_steps),
      static_cast<long long>(c.replays), static_cast<long long>(c.eager), static_cast<long long>(c.faults),
      static_cast<long long>(c.requests), static_cast<long long>(c.compared), kPool,
      static_cast<long long>(c.pool_answers), static_cast<long long>(c.cut_short), static_cast<long long>(c.cancels),
      static_cast<long long>(c.preemptions), static_cast<long long>(c.prefix_hits), static_cast<long long>(c.rows));
  for (const auto& [status, n] : c.statuses) std::printf(" %s=%lld", status.c_str(), static_cast<long long>(n));
  std::printf("\n");
}

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const auto all = worlds(a.device);
  std::vector<std::unique_ptr<Oracle>> oracles;
  for (const World& world : all) oracles.push_back(std::make_unique<Oracle>(world));
  Counts counts;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (counts.steps < a.steps && seconds() < a.seconds) {
    // Each epoch has a seed of its own, so that the one that fails can be run alone.
    const std::uint64_t seed = a.seed + static_cast<std::uint64_t>(counts.epochs);
    Random random(seed);
    const std::size_t w = random() % all.size();
    try {
      Epoch epoch(all[w], *oracles[w], random, counts);
      epoch.run(static_cast<int>(std::min<std::int64_t>(kEpoch, a.steps - counts.steps)));
    } catch (const std::exception& e) {
      std::printf("FAILED at step %lld: %s\n  replay: lane_run --device %s --seed %llu --steps %d\n",
                  static_cast<long long>(counts.steps), e.what(), a.device.c_str(),
                  static_cast<unsigned long long>(seed), kEpoch);
      return 1;
    }
  }
  print(a, counts, seconds());
  const bool enough = counts.faults > 0 && counts.preemptions > 0 && counts.prefix_hits > 0 && counts.cancels > 0 &&
                      counts.statuses.size() > 3;
  if (a.steps >= 10000 && !enough) std::printf("FAILED: some kind of traffic did not occur\n");
  return a.steps >= 10000 && !enough ? 1 : 0;
}

}  // namespace
}  // namespace monograph::lane_run

int main(int argc, char** argv) {
  try {
    return monograph::lane_run::main(argc, argv);
  } catch (const monograph::Error& e) {
    std::fprintf(stderr, "lane_run: %s\n", e.what());
    return 2;
  }
}
