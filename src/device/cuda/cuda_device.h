// One NVIDIA GPU as a device: a stream, captured into graphs in thread-local mode.
#pragma once
#include "device/cuda/handles.h"
#include "device/device.h"
#include "device/gpu_support.h"

namespace monograph {

class CudaDevice : public Device {
 public:
  /// Throws Error(kUnsupported) in one sentence if there is no GPU, or none that check_gpu lets pass.
  explicit CudaDevice(bool allow_untested);
  ~CudaDevice() override;

  cudaStream_t stream() const { return stream_.get(); }
  GpuSupport support() const { return support_; }
  int compute_capability() const { return capability_; }  ///< 90 for 9.0
  int n_multiprocessors() const { return n_multiprocessors_; }

  std::string description() const override { return description_; }
  Buffer allocate(std::int64_t bytes) override;
  Buffer allocate_host(std::int64_t bytes) override;
  std::unique_ptr<Region> reserve(std::int64_t bytes) override;
  DeviceMemory memory() const override;
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void synchronize() override;
  bool needs_warm_up() const override { return true; }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;
  bool capturing() const override { return capturing_; }
  std::unique_ptr<Stopwatch> make_stopwatch() override;

 private:
  void forbid_while_capturing(const char* what) const;

  GpuSupport support_ = GpuSupport::kDeclared;
  int capability_ = 0, n_multiprocessors_ = 0;
  std::string description_;
  cuda::Stream stream_;
  bool capturing_ = false;
};

}  // namespace monograph
