// Threads for the CPU backend's loops: sized by affinity and cgroup quota, pinned only on request, asleep when idle.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace monograph::cpu {

/// CPUs this process may use: affinity mask and cgroup v1/v2 quota, at least 1.
int usable_cpus();

class ThreadPool {
 public:
  /// `n_threads` includes the caller; 0 means usable_cpus().
  explicit ThreadPool(int n_threads, bool pin = false);
  ~ThreadPool();
  int size() const;

  /// Runs work(begin, end, thread) over [0, n) in pieces of `grain`, on all threads, and waits. Pieces are claimed in
  /// any order by any thread, so a piece's result must depend on its index alone. The first exception is rethrown here.
  /// Not reentrant. Called from one thread at a time.
  void parallel_for(std::int64_t n, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t, int)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs work(begin, end) over [0, n) in pieces of `grain`, on threads made for this call: for long jobs outside any
/// device's stream, such as reading a file. The first exception is rethrown.
void parallel_once(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace monograph::cpu
