#include "device/cpu/cpu_device.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "base/check.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr std::align_val_t kAlignment{256};

/// Tasks in the order they were recorded; the pointers and scalars they hold are the capture's.
class CpuGraph : public Graph {
 public:
  explicit CpuGraph(std::vector<CpuDevice::Node> nodes) : nodes_(std::move(nodes)) {}
  void replay() override {
    for (const auto& node : nodes_) node.task();
  }
  int n_nodes() const override { return static_cast<int>(nodes_.size()); }
  std::int64_t device_bytes() const override { return 0; }

 private:
  std::vector<CpuDevice::Node> nodes_;
};

/// All of it at once: the system commits host memory where it is touched.
class CpuRegion : public Region {
 public:
  explicit CpuRegion(Buffer buffer) : buffer_(std::move(buffer)) {}
  void* data() const override { return buffer_.data(); }
  void commit(std::int64_t bytes) override { CHECK(bytes <= buffer_.bytes()); }

 private:
  Buffer buffer_;
};

/// Queued work has run when its call returns.
class CpuStopwatch : public Stopwatch {
 public:
  void start() override { start_ = std::chrono::steady_clock::now(); }
  void stop() override { stop_ = std::chrono::steady_clock::now(); }
  double elapsed_us() const override { return std::chrono::duration<double, std::micro>(stop_ - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_, stop_;
};

}  // namespace

CpuDevice::CpuDevice(int threads, bool pin_threads) : pool_(threads, pin_threads) {}
CpuDevice::~CpuDevice() = default;

void CpuDevice::submit(const char* name, std::function<void()> task) {
  if (recording_)
    recording_->push_back({name, std::move(task)});
  else
    task();
}

std::string CpuDevice::description() const { return "cpu, " + std::to_string(pool_.size()) + " threads"; }

void CpuDevice::forbid_while_capturing(const char* what) const {
  if (recording_)
    throw Error(ErrorCode::kInternal, std::string(what) + " during a capture: a graph may not contain it");
}

Buffer CpuDevice::allocate(std::int64_t bytes) {
  forbid_while_capturing("allocation");
  CHECK(bytes >= 0);
  // Large blocks come from the system zeroed and untouched, so memory is committed only where it is used.
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? (bytes + 255) / 256 * 256 : 256);
  if (size >= (1u << 20)) {
    data = std::calloc(1, size + 256);  // NOLINT: the Buffer owns it
    if (data) {
      auto aligned = (reinterpret_cast<std::uintptr_t>(data) + 255) & ~std::uintptr_t{255};
      return Buffer(reinterpret_cast<void*>(aligned), bytes, [data](void*) { std::free(data); });  // NOLINT
    }
  } else {
    data = ::operator new(size, kAlignment, std::nothrow);
    if (data) {
      std::memset(data, 0, size);
      return Buffer(data, bytes, [](void* p) { ::operator delete(p, kAlignment); });
    }
  }
  throw Error(ErrorCode::kOutOfMemory, "host memory: cannot allocate " + std::to_string(bytes) + " bytes");
}

Buffer CpuDevice::allocate_host(std::int64_t bytes) { return allocate(bytes); }

std::unique_ptr<Region> CpuDevice::reserve(std::int64_t bytes) { return std::make_unique<CpuRegion>(allocate(bytes)); }

DeviceMemory CpuDevice::memory() const {
  DeviceMemory memory;
  memory.total = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  memory.free = static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream info("/proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  std::string unit;
  while (info >> key >> kilobytes && std::getline(info, unit))
    if (key == "MemAvailable:") memory.free = kilobytes * 1024;
  return memory;
}

void CpuDevice::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  forbid_while_capturing("a copy from the host");
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void CpuDevice::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  forbid_while_capturing("a copy to the host");
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void CpuDevice::synchronize() { forbid_while_capturing("waiting"); }

std::unique_ptr<Graph> CpuDevice::capture(const std::function<void()>& work) {
  forbid_while_capturing("a second capture");
  std::vector<Node> nodes;
  recording_ = &nodes;
  try {
    work();
  } catch (...) {
    recording_ = nullptr;
    throw;
  }
  recording_ = nullptr;
  return std::make_unique<CpuGraph>(std::move(nodes));
}

std::unique_ptr<Stopwatch> CpuDevice::make_stopwatch() { return std::make_unique<CpuStopwatch>(); }

}  // namespace monograph
