#include "device/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace monograph::cpu {
namespace {

TEST(ThreadPool, EveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int n : {0, 1, 2, 7, 64, 1000}) {
      for (int grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> seen(n);
        pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_LT(thread, threads);
          for (auto i = begin; i < end; ++i) seen[i].fetch_add(1);
        });
        for (auto& count : seen) EXPECT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, ManyShortJobsBackToBack) {
  ThreadPool pool(3);
  std::int64_t total = 0;
  for (int job = 0; job < 20000; ++job) {
    std::atomic<std::int64_t> sum{0};
    const int n = job % 17;
    pool.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t, int) { sum += begin; });
    EXPECT_EQ(sum.load(), n * (n - 1) / 2);
    total += sum;
  }
  EXPECT_GT(total, 0);
}

TEST(ThreadPool, ExceptionReachesTheCallerAndThePoolLives) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(100, 1,
                                 [](std::int64_t begin, std::int64_t, int) {
                                   if (begin == 57) throw std::runtime_error("57");
                                 }),
               std::runtime_error);
  std::atomic<int> n{0};
  pool.parallel_for(10, 1, [&](std::int64_t, std::int64_t, int) { ++n; });
  EXPECT_EQ(n.load(), 10);
}

TEST(ThreadPool, SleepsWhenIdle) {
  ThreadPool pool(4);
  pool.parallel_for(100, 1, [](std::int64_t, std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // past the spin
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1) << "CPU seconds of the whole process";
}

TEST(ParallelOnce, CoversEveryIndexOnceAndPassesErrorsOn) {
  for (std::int64_t n : {0, 1, 7, 8, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
    parallel_once(n, 8, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_LE(end - begin, 8);
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const auto& count : seen) EXPECT_EQ(count.load(), 1) << n;
  }
  EXPECT_THROW(parallel_once(100, 8,
                             [](std::int64_t begin, std::int64_t) {
                               if (begin == 96) throw std::runtime_error("96");
                             }),
               std::runtime_error);
}

TEST(UsableCpus, AtLeastOne) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace monograph::cpu
