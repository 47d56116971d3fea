#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "device/cuda/cuda_region.h"

namespace monograph {
namespace {

class CudaGraph : public Graph {
 public:
  CudaGraph(cuda::GraphExec exec, cudaStream_t stream, int n_nodes, std::int64_t device_bytes)
      : exec_(std::move(exec)), stream_(stream), n_nodes_(n_nodes), device_bytes_(device_bytes) {}
  void replay() override { CUDA_CHECK(cudaGraphLaunch(exec_.get(), stream_)); }
  int n_nodes() const override { return n_nodes_; }
  std::int64_t device_bytes() const override { return device_bytes_; }

 private:
  cuda::GraphExec exec_;
  cudaStream_t stream_;
  int n_nodes_;
  std::int64_t device_bytes_;
};

class CudaStopwatch : public Stopwatch {
 public:
  explicit CudaStopwatch(cudaStream_t stream) : stream_(stream) {}
  void start() override { CUDA_CHECK(cudaEventRecord(start_.get(), stream_)); }
  void stop() override { CUDA_CHECK(cudaEventRecord(stop_.get(), stream_)); }
  double elapsed_us() const override {
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
    return 1000.0 * static_cast<double>(milliseconds);
  }

 private:
  cudaStream_t stream_;
  cuda::Event start_ = cuda::make_event(cudaEventDefault), stop_ = cuda::make_event(cudaEventDefault);
};

/// The first GPU's properties; throws if there is none.
cudaDeviceProp first_gpu() {
  int n_devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&n_devices); status != cudaSuccess || n_devices == 0)
    throw Error(ErrorCode::kUnsupported,
                std::string("no CUDA device: ") +
                    (status == cudaSuccess ? "the driver reports none" : cudaGetErrorString(status)) +
                    "; use --device cpu");
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  return properties;
}

}  // namespace

CudaDevice::CudaDevice(bool allow_untested) {
  // Kernels that are loaded on first use would be loaded inside a capture, and their memory counted as the graph's.
  static_cast<void>(setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0));
  const cudaDeviceProp properties = first_gpu();
  support_ = check_gpu(properties.name, properties.major, properties.minor, allow_untested);
  capability_ = properties.major * 10 + properties.minor;
  n_multiprocessors_ = properties.multiProcessorCount;
  description_ = std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem >> 20) + " MiB";
  CUDA_CHECK(cudaSetDevice(0));
  // A waiting engine thread polls: the answer to a first token is worth more than the core it spins on.
  static_cast<void>(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
}

CudaDevice::~CudaDevice() {
  if (stream_) static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

void CudaDevice::forbid_while_capturing(const char* what) const {
  if (capturing_)
    throw Error(ErrorCode::kInternal, std::string(what) + " during a capture: a graph may not contain it");
}

Buffer CudaDevice::allocate(std::int64_t bytes) {
  forbid_while_capturing("allocation");
  CHECK(bytes >= 0);
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  if (cudaMalloc(&data, size) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error(ErrorCode::kOutOfMemory, "GPU memory: cannot allocate " + std::to_string(bytes) + " bytes, " +
                                             std::to_string(memory().free) + " are free");
  }
  Buffer buffer(data, bytes, [](void* p) { static_cast<void>(cudaFree(p)); });
  // Whatever touches the buffer later is in the same stream's order.
  CUDA_CHECK(cudaMemsetAsync(data, 0, size, stream_.get()));
  return buffer;
}

Buffer CudaDevice::allocate_host(std::int64_t bytes) {
  forbid_while_capturing("allocation");
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  if (cudaHostAlloc(&data, size, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error(ErrorCode::kOutOfMemory, "pinned host memory: cannot allocate " + std::to_string(bytes) + " bytes");
  }
  std::fill_n(static_cast<char*>(data), size, '\0');
  return Buffer(data, bytes, [](void* p) { static_cast<void>(cudaFreeHost(p)); });
}

std::unique_ptr<Region> CudaDevice::reserve(std::int64_t bytes) {
  forbid_while_capturing("allocation");
  return cuda::reserve_region(bytes, stream_.get());
}

DeviceMemory CudaDevice::memory() const {
  std::size_t free_bytes = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total), true};
}

void CudaDevice::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  forbid_while_capturing("a copy from the host");
  CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_.get()));
}

void CudaDevice::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  forbid_while_capturing("a copy to the host");
  CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_.get()));
}

void CudaDevice::synchronize() {
  forbid_while_capturing("waiting");
  CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
}

std::unique_ptr<Graph> CudaDevice::capture(const std::function<void()>& work) {
  forbid_while_capturing("a second capture");
  CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
  cudaGraph_t raw = nullptr;
  try {
    work();
  } catch (...) {
    // The half-captured graph is left alone on purpose: after a failure inside a capture nothing about it is known, and
    // start-up ends (SPEC S-28).
    capturing_ = false;
    throw;
  }
  capturing_ = false;
  CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &raw));
  cuda::GraphHandle graph(raw);
  std::size_t n_nodes = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &n_nodes));
  const std::int64_t free_before = memory().free;
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
  cuda::GraphExec owned(exec);
  CUDA_CHECK(cudaGraphUpload(exec, stream_.get()));
  CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  return std::make_unique<CudaGraph>(std::move(owned), stream_.get(), static_cast<int>(n_nodes),
                                     free_before - memory().free);
}

std::unique_ptr<Stopwatch> CudaDevice::make_stopwatch() { return std::make_unique<CudaStopwatch>(stream_.get()); }

}  // namespace monograph
