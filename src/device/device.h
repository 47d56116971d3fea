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

/// A range of device memory at a fixed address, filled from the front: capture needs addresses before it is known how
/// much memory is left for them. Released by its destructor.
class Region {
 public:
  virtual ~Region() = default;
  virtual void* data() const = 0;
  /// Puts zeroed memory behind at least the first `bytes`; never takes any away. Throws Error(kOutOfMemory).
  virtual void commit(std::int64_t bytes) = 0;
};

/// Whose memory a device uses, and how much of it there is.
struct DeviceMemory {
  std::int64_t free = 0, total = 0;
  bool own = false;  ///< A GPU's, taken when allocated; else the host's, taken when first touched.
};

/// A recorded forward. Pointers, shapes and host scalars are frozen at capture; buffer contents are read at replay.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Queues one replay on the device's stream. Throws Error(kDevice) if it cannot be launched.
  virtual void replay() = 0;
  virtual int n_nodes() const = 0;
  /// Device memory that went into making it ready, as the driver reports it.
  virtual std::int64_t device_bytes() const = 0;
};

/// The device's own clock around queued work.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Both in stream order, outside captures.
  virtual void start() = 0;
  virtual void stop() = 0;
  /// Between the two, once the device has passed them (after synchronize()).
  virtual double elapsed_us() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string description() const = 0;

  /// Throws Error(kOutOfMemory) naming the bytes; Error(kInternal) during a capture. The device outlives its buffers.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  /// Host memory the device can read and write directly.
  virtual Buffer allocate_host(std::int64_t bytes) = 0;
  /// Addresses for up to `bytes`; no memory yet.
  virtual std::unique_ptr<Region> reserve(std::int64_t bytes) = 0;
  virtual DeviceMemory memory() const = 0;

  /// In stream order; the host memory must stay until synchronize(). Error(kInternal) during a capture.
  virtual void copy_to_device(void* to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::int64_t bytes) = 0;
  /// Waits for everything queued. Error(kInternal) during a capture.
  virtual void synchronize() = 0;

  /// Whether work should run before it is captured, so that nothing is loaded or set up for the first time inside a
  /// capture: true where a capture is the driver's, false where it only notes down tasks.
  virtual bool needs_warm_up() const = 0;
  /// Runs `work`, recording instead of executing what it queues. An exception from `work` passes through; what was
  /// recorded by then is not destroyed by a driver call, since its state is unknown (SPEC S-28). The caller decides
  /// whether that is dirty (graph/capture).
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
  virtual bool capturing() const = 0;
  virtual std::unique_ptr<Stopwatch> make_stopwatch() = 0;
};

}  // namespace monograph
