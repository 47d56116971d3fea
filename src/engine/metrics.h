// Everything the engine counts, and its Prometheus text. The engine thread writes once per pass, scrapes read.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "graph/runner.h"

namespace monograph {

class Histogram {
 public:
  explicit Histogram(std::span<const double> edges) : edges_(edges.begin(), edges.end()), counts_(edges.size() + 1) {}
  void observe(double value);
  /// Appends the series `name` with `labels` (without braces).
  void render(std::string& out, const std::string& name, const std::string& help, const std::string& labels) const;

 private:
  std::vector<double> edges_;
  std::vector<std::int64_t> counts_;  // per interval, the last one above every edge
  double sum_ = 0;
};

enum class StepPhase { kPlan, kBuild, kRun, kCommit };
inline constexpr int kStepPhases = 4;

/// Names that dashboards know keep their `vllm:` prefix; what only Monograph has is `monograph_`.
struct MetricValues {
  MetricValues();
  int n_running = 0, n_waiting = 0;
  int blocks_used = 0, blocks_cached = 0, blocks_total = 0;
  std::int64_t prompt_tokens = 0, generation_tokens = 0;
  std::int64_t finished_stop = 0, finished_length = 0, finished_abort = 0, finished_error = 0;
  std::int64_t failed_steps = 0, broken_kv_accounts = 0, sampling_outside_graph = 0;
  std::array<double, kStepPhases> phase_seconds{};
  SchedulerStats scheduler;
  RunnerStats runner;
  std::vector<CaptureRecord> captures;
  Histogram time_to_first_token, inter_token_latency, e2e_latency, queue_time, prefill_time, decode_time,
      inference_time;
  Histogram request_prompt_tokens, request_generation_tokens, request_params_max_tokens, request_params_n,
      iteration_tokens;
};

class Metrics {
 public:
  explicit Metrics(std::string model_name, int block_size)
      : model_name_(std::move(model_name)), block_size_(block_size) {}

  template <typename F>
  void write(F change) {
    const std::lock_guard lock(mutex_);
    change(values_);
  }
  /// Callers' side: requests refused at the door.
  void count_refused(bool queue_full);
  std::string render() const;

 private:
  std::string model_name_;
  int block_size_;
  mutable std::mutex mutex_;
  MetricValues values_;
  std::int64_t refused_full_ = 0, refused_invalid_ = 0;
};

}  // namespace monograph
