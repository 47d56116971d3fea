// Ctrl-C and SIGTERM: the first asks to stop, the second ends the process at once.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace monograph::app {

/// Watches SIGINT and SIGTERM on a thread of its own. Construct it before any other thread: it blocks both signals for
/// the threads that come later.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stopping() const { return signal_.load() != 0; }
  /// Readable from the first signal on; for poll().
  int stop_fd() const { return stop_fd_; }
  /// Runs `act(signal)` on the watching thread at the first signal, at once if that has come. When on_stop({}) has
  /// returned, the old one is not running and never runs again.
  void on_stop(std::function<void(int signal)> act);
  /// A process that has not ended `grace` after its first signal is ended with `exit_code`. 0: it may take its time.
  void end_after(std::chrono::milliseconds grace, int exit_code);

 private:
  void watch();
  void first(int signal);

  int signal_fd_ = -1, stop_fd_ = -1, quit_fd_ = -1;
  std::atomic<int> signal_{0};
  std::atomic<std::int64_t> grace_ms_{0};
  std::atomic<int> exit_code_{1};
  std::mutex mutex_;  // guards act_, also while it runs
  std::function<void(int)> act_;
  std::thread watcher_;
};

}  // namespace monograph::app
