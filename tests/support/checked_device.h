// A device around a device: tells a test of every call before it happens, so that the test can count or fail it.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"

namespace monograph::testing {

enum class DevicePoint {
  kAllocate,
  kCopy,
  kWait,
  kCaptureBegin,
  kCapturing,   ///< Inside, before the work.
  kCaptureEnd,  ///< Inside, after the work.
  kReplay,
  kReplayed,  ///< The replay was queued (on the CPU: has run).
};
inline constexpr int kDevicePoints = 8;

class CheckedDevice : public Device {
 public:
  using Hook = std::function<void(DevicePoint)>;
  struct Piece {
    void* data;
    std::int64_t bytes;
  };

  /// `warm_up`: as a device whose captures are the driver's.
  CheckedDevice(std::unique_ptr<Device> inner, Hook hook, bool warm_up)
      : inner_(std::move(inner)), warm_up_(warm_up || inner_->needs_warm_up()), hook_(std::move(hook)) {}

  void set_hook(Hook hook) { hook_ = std::move(hook); }
  std::int64_t count(DevicePoint point) const { return counts_[static_cast<std::size_t>(point)]; }
  /// Device memory in the order it was asked for.
  const std::vector<Piece>& pieces() const { return pieces_; }

  std::string description() const override { return inner_->description(); }
  DeviceMemory memory() const override { return inner_->memory(); }
  std::unique_ptr<Stopwatch> make_stopwatch() override { return inner_->make_stopwatch(); }
  std::unique_ptr<Region> reserve(std::int64_t bytes) override {
    reach(DevicePoint::kAllocate);
    return inner_->reserve(bytes);
  }
  bool needs_warm_up() const override { return warm_up_; }
  bool capturing() const override { return inner_->capturing(); }

  Buffer allocate(std::int64_t bytes) override {
    reach(DevicePoint::kAllocate);
    Buffer buffer = inner_->allocate(bytes);
    pieces_.push_back({buffer.data(), bytes});
    return buffer;
  }
  Buffer allocate_host(std::int64_t bytes) override {
    reach(DevicePoint::kAllocate);
    return inner_->allocate_host(bytes);
  }
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override {
    reach(DevicePoint::kCopy);
    inner_->copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override {
    reach(DevicePoint::kCopy);
    inner_->copy_to_host(to, from, bytes);
  }
  void synchronize() override {
    reach(DevicePoint::kWait);
    inner_->synchronize();
  }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override {
    reach(DevicePoint::kCaptureBegin);
    auto graph = inner_->capture([&] {
      reach(DevicePoint::kCapturing);
      work();
      reach(DevicePoint::kCaptureEnd);
    });
    return std::make_unique<CheckedGraph>(*this, std::move(graph));
  }

 private:
  struct CheckedGraph : Graph {
    CheckedGraph(CheckedDevice& device, std::unique_ptr<Graph> inner) : device(device), inner(std::move(inner)) {}
    void replay() override {
      device.reach(DevicePoint::kReplay);
      inner->replay();
      device.reach(DevicePoint::kReplayed);
    }
    int n_nodes() const override { return inner->n_nodes(); }
    std::int64_t device_bytes() const override { return inner->device_bytes(); }
    CheckedDevice& device;
    std::unique_ptr<Graph> inner;
  };

  void reach(DevicePoint point) {
    ++counts_[static_cast<std::size_t>(point)];
    if (hook_) hook_(point);
  }

  std::unique_ptr<Device> inner_;
  bool warm_up_;
  Hook hook_;
  std::int64_t counts_[kDevicePoints] = {};
  std::vector<Piece> pieces_;
};

}  // namespace monograph::testing
