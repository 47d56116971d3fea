// The one engine thread: plan, run, commit, emit. It owns scheduler, cache and graphs, so none of them has a lock.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/channel.h"
#include "engine/metrics.h"
#include "engine/scheduler.h"
#include "engine/step_log.h"
#include "graph/runner.h"

namespace monograph {

struct LoopConfig {
  SchedulerConfig scheduler;
  int max_queue = 1024;
  std::chrono::microseconds spin{0};  ///< How long the idle thread stays awake before it sleeps.
  int position_factor = 0;            ///< P of the model.
  bool audit = false;  ///< Check every block after every round, and stop at the first that is wrong (tests).
  std::string step_log;
  /// A device's context does not recover from a fault (STYLE.md): called on the engine thread once every request has
  /// been ended with an error. Empty: ends the process.
  std::function<void(const std::string&)> on_device_fault;
};

class Loop {
 public:
  /// Runner, pool and metrics outlive the loop. The thread starts here.
  Loop(LoopConfig config, Runner& runner, BlockPool& pool, Metrics& metrics, Log log);
  /// Stops at once if still running.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// The sequences of one request; throws as Inbox::push. From any thread.
  void submit(std::vector<std::unique_ptr<Sequence>> sequences) { inbox_.push(std::move(sequences)); }
  /// As Engine::stop: new work is refused, what waits is cancelled, what runs may finish until `deadline` from now,
  /// then it is cancelled. Returns when the thread has ended. From any thread, any number of times.
  void stop(std::chrono::milliseconds deadline);
  /// Seconds since the thread last finished a pass; 0 while it is idle with nothing to take.
  double seconds_since_heartbeat() const;

 private:
  void run();
  bool take_work();
  bool wind_down();
  void run_next_step(std::span<StepPlan> rest);
  StepResult execute(const StepPlan& step);
  void emit(std::vector<Delivery> deliveries);
  void count_event(MetricValues& values, const Delivery& delivery, TimePoint now);
  void count_time(StepPhase phase, TimePoint start);
  void count_failure(const StepPlan& step, const std::string& why);
  void check_accounts();
  void finish_pass();
  void device_fault(const std::string& why);

  LoopConfig config_;
  Runner& runner_;
  BlockPool& pool_;
  Metrics& metrics_;
  Log log_;
  StepLog step_log_;
  Inbox inbox_;
  Scheduler scheduler_;
  Tick failures_, broken_accounts_;
  std::int64_t n_rounds_ = 0, last_step_ = 0;
  bool faulted_ = false;

  std::atomic<std::int64_t> heartbeat_ns_;
  std::atomic<bool> idle_{true};
  std::atomic<std::int64_t> stop_at_ns_;
  std::mutex join_mutex_;
  std::thread thread_;  // last: everything above exists before it runs
};

}  // namespace monograph
