// Memory, order and graphs of one device. No maths. One engine thread uses a device; everything is ordered by its
// stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace monograph {

/// Owner of device (or pinned host) memory, 256-byte aligned, zero-filled. Moves, does not copy.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::int64_t bytes, std::function<void(void*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}
  void* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  std::int64_t bytes_ = 0;
};

/// A recorded forward. Pointers, shapes and host scalars are frozen at capture; buffer contents are read at replay.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Queues one replay on the device's stream. Throws Error(kDevice) if it cannot be launched.
  virtual void replay() = 0;
  virtual int n_nodes() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string description() const = 0;

  /// Throws Error(kOutOfMemory) naming the bytes; Error(kInternal) during a capture. The device outlives its buffers.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  /// Host memory the device can read and write directly.
  virtual Buffer allocate_host(std::int64_t bytes) = 0;
  virtual std::int64_t available_bytes() const = 0;

  /// In stream order; the host memory must stay until synchronize(). Error(kInternal) during a capture.
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// Waits for everything queued. Error(kInternal) during a capture.
  virtual void synchronize() = 0;

  /// Runs `work`, recording instead of executing what it queues. An exception from `work` passes through after the
  /// capture was closed; the caller decides whether that is dirty (graph/capture).
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
  virtual bool capturing() const = 0;
};

}  // namespace monograph
