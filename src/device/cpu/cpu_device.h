// The CPU as a device: a stream that runs tasks at once, or records them, so that a CPU "graph" replays too.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "device/cpu/thread_pool.h"
#include "device/device.h"

namespace monograph {

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads = 0, bool pin_threads = false);
  ~CpuDevice() override;

  /// An op's work: runs now, or is recorded while capturing. It must hold pointers, shapes and scalars by value and
  /// read buffer contents only when it runs. `name` shows in graph dumps and errors; a literal.
  void submit(const char* name, std::function<void()> task);
  cpu::ThreadPool& pool() { return pool_; }

  std::string description() const override;
  Buffer allocate(std::int64_t bytes) override;
  Buffer allocate_host(std::int64_t bytes) override;
  std::unique_ptr<Region> reserve(std::int64_t bytes) override;
  DeviceMemory memory() const override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void synchronize() override;
  bool needs_warm_up() const override { return false; }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;
  bool capturing() const override { return recording_ != nullptr; }
  std::unique_ptr<Stopwatch> make_stopwatch() override;

  struct Node {
    const char* name;
    std::function<void()> task;
  };

 private:
  void forbid_while_capturing(const char* what) const;

  cpu::ThreadPool pool_;
  std::vector<Node>* recording_ = nullptr;
};

}  // namespace monograph
