#include "device/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/stay_awake.h"

namespace monograph::cpu {
namespace {

// How long a thread looks for work before it sleeps: a little longer than the gap between two ops of a forward.
constexpr int kSpins = 4000;

/// CPUs granted by the cgroup's quota, or 0 for no limit.
double cgroup_quota() {
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    std::string quota;
    double period = 0;
    if (v2 >> quota >> period && quota != "max" && period > 0) return std::strtod(quota.c_str(), nullptr) / period;
    return 0;
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

int usable_cpus() {
  int n = static_cast<int>(allowed_cpus().size());
  if (n == 0) n = static_cast<int>(std::thread::hardware_concurrency());
  if (const double quota = cgroup_quota(); quota > 0) n = std::min(n, static_cast<int>(std::ceil(quota)));
  return std::max(n, 1);
}

struct ThreadPool::Impl {
  // A job's pieces are claimed through `cursor`: its generation in the high half, the next piece in the low half. A
  // thread that wakes late fails to claim and touches nothing, so the caller waits for claimed pieces only, never for
  // sleepers.
  std::atomic<std::uint64_t> cursor{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::int64_t> n_done{0};
  std::atomic<bool> stopping{false};
  const std::function<void(std::int64_t, std::int64_t, int)>* work = nullptr;
  std::int64_t n = 0, grain = 1, n_pieces = 0;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  void run_pieces(std::uint32_t wanted, int thread) {
    std::uint64_t seen = cursor.load(std::memory_order_acquire);
    for (;;) {
      const auto piece = static_cast<std::int64_t>(seen & 0xffffffffu);
      if ((seen >> 32) != wanted) return;
      if (piece >= pieces_of_generation.load(std::memory_order_relaxed)) return;
      if (!cursor.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      run_piece(piece, thread);
      seen = cursor.load(std::memory_order_acquire);
    }
  }

  void run_piece(std::int64_t piece, int thread) {
    const std::int64_t wanted = n_pieces;  // read while this piece still holds the job open
    try {
      (*work)(piece * grain, std::min(n, (piece + 1) * grain), thread);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
    if (n_done.fetch_add(1, std::memory_order_acq_rel) + 1 == wanted) n_done.notify_one();
  }

  void worker(int thread) {
    std::uint32_t last = 0;
    for (;;) {
      std::uint32_t now = generation.load(std::memory_order_acquire);
      for (int spin = 0; now == last && spin < kSpins; ++spin) {
        pause_briefly();
        now = generation.load(std::memory_order_acquire);
      }
      if (now == last) {
        generation.wait(last, std::memory_order_acquire);
        continue;
      }
      if (stopping.load(std::memory_order_acquire)) return;
      last = now;
      run_pieces(now, thread);
    }
  }

  std::atomic<std::int64_t> pieces_of_generation{0};
};

ThreadPool::ThreadPool(int n_threads, bool pin) : impl_(std::make_unique<Impl>()) {
  if (n_threads <= 0) n_threads = usable_cpus();
  const std::vector<int> cpus = allowed_cpus();
  for (int thread = 1; thread < n_threads; ++thread) {
    impl_->threads.emplace_back([this, thread] { impl_->worker(thread); });
    if (pin && !cpus.empty()) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpus[thread % cpus.size()], &one);
      pthread_setaffinity_np(impl_->threads.back().native_handle(), sizeof one, &one);
    }
  }
}

ThreadPool::~ThreadPool() {
  impl_->stopping.store(true, std::memory_order_release);
  impl_->generation.fetch_add(1, std::memory_order_release);
  impl_->generation.notify_all();
  for (auto& thread : impl_->threads) thread.join();
}

int ThreadPool::size() const { return static_cast<int>(impl_->threads.size()) + 1; }

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t, int)>& work) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t n_pieces = (n + grain - 1) / grain;
  if (n_pieces == 1 || impl_->threads.empty()) {
    for (std::int64_t begin = 0; begin < n; begin += grain) work(begin, std::min(n, begin + grain), 0);
    return;
  }
  Impl& s = *impl_;
  const std::uint32_t generation = s.generation.load(std::memory_order_relaxed) + 1;
  // Closed first: from here on no late thread can claim a piece of the last job by this job's count.
  s.cursor.exchange((static_cast<std::uint64_t>(generation) << 32) | 0xffffffffu, std::memory_order_acq_rel);
  s.work = &work;
  s.n = n;
  s.grain = grain;
  s.n_pieces = n_pieces;
  s.error = nullptr;
  s.n_done.store(0, std::memory_order_relaxed);
  s.pieces_of_generation.store(n_pieces, std::memory_order_relaxed);
  s.cursor.store(static_cast<std::uint64_t>(generation) << 32, std::memory_order_release);
  s.generation.store(generation, std::memory_order_release);
  s.generation.notify_all();
  s.run_pieces(generation, 0);
  std::int64_t done = s.n_done.load(std::memory_order_acquire);
  for (int spin = 0; done < n_pieces; ++spin, done = s.n_done.load(std::memory_order_acquire)) {
    if (spin < kSpins)
      pause_briefly();
    else
      s.n_done.wait(done, std::memory_order_acquire);
  }
  if (s.error) std::rethrow_exception(s.error);
}

void parallel_once(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (n <= grain) return work(0, n);
  const std::int64_t n_pieces = (n + grain - 1) / grain;
  ThreadPool pool(static_cast<int>(std::min<std::int64_t>(usable_cpus(), n_pieces)));
  pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int) { work(begin, end); });
}

}  // namespace monograph::cpu
