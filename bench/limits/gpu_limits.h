// What one GPU can do at most, measured: the figures that floors and percentages of bench prefill stand on.
#pragma once
#include <algorithm>
#include <chrono>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.h"

namespace monograph::limits {

using Json = nlohmann::ordered_json;

/// Reads and copies of 4 MB to 4 GB, cold: {"read": [{bytes, us, tb_s}], "copy": [...], "bw_tb_s": best read}.
Json bandwidth(CudaDevice& device);
/// Chains of tiny kernels, with and without programmatic edges: device time a node, host time of a launch, memory a
/// node; and the host time of a launch without a graph.
Json graphs(CudaDevice& device);
/// Straight-line code by size: [{kilobytes, cycles_first, cycles_again}], cycles an instruction when an SM has to fetch
/// the code anew, and when it ran just before.
Json code(CudaDevice& device);
/// Reads of pinned host memory by the device: latency, and a step's staged set as kernel and as copy node.
Json pinned_memory();
/// bf16 products by cuBLASLt, found at run time: {"rows": [{m, n, k, us, tflop_s}], "tflop_s": best}; {"error": why}
/// without the library.
Json products(CudaDevice& device, const std::string& library);

inline double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

/// Median device time of work(i) in microseconds, each run on its own.
inline double device_us(CudaDevice& device, int n, const std::function<void(int)>& work) {
  const auto stopwatch = device.make_stopwatch();
  std::vector<double> samples;
  for (int i = -3; i < n; ++i) {
    stopwatch->start();
    work(i + 3);
    stopwatch->stop();
    device.synchronize();
    if (i >= 0) samples.push_back(stopwatch->elapsed_us());
  }
  return median(samples);
}

/// Median host time of work() in microseconds; `after` runs unmeasured.
inline double host_us(int n, const std::function<void()>& work, const std::function<void()>& after) {
  std::vector<double> samples;
  for (int i = -3; i < n; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto stop = std::chrono::steady_clock::now();
    after();
    if (i >= 0) samples.push_back(std::chrono::duration<double, std::micro>(stop - start).count());
  }
  return median(samples);
}

}  // namespace monograph::limits
