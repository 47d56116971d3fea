#include <numeric>
#include <random>

#include "gpu_limits.h"
#include "ops/cuda/cuda_ops.h"

namespace monograph::limits {
namespace {

// One thread follows a chain of indices: each read waits for the one before.
__global__ void chase_kernel(const volatile int* next, int n_reads, int* sink) {
  int at = 0;
  for (int i = 0; i < n_reads; ++i) at = next[at];
  *sink = at;
}

double read_latency_us(CudaDevice& device) {
  constexpr int kCells = 1 << 16, kStride = 32, kReads = 2000;
  const Buffer chain = device.allocate_host(4 * kCells), sink = device.allocate(4);
  std::vector<int> order(kCells / kStride);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin() + 1, order.end(), std::mt19937(1));
  for (std::size_t i = 0; i < order.size(); ++i)
    chain.as<int>()[order[i] * kStride] = order[(i + 1) % order.size()] * kStride;
  const auto chase = [&](int n) {
    return device_us(device, 5, [&](int) {
      chase_kernel<<<1, 1, 0, device.stream()>>>(chain.as<int>(), n, sink.as<int>());
      CUDA_CHECK(cudaGetLastError());
    });
  };
  return (chase(2 * kReads) - chase(kReads)) / kReads;
}

/// Device time of one replay of what `work` queues, and the host's wait for it.
Json replay_times(CudaDevice& device, const std::function<void()>& work) {
  const auto graph = device.capture(work);
  const double us = device_us(device, 100, [&](int) { graph->replay(); });
  const double done = host_us(
      100,
      [&] {
        graph->replay();
        device.synchronize();
      },
      [] {});
  return {{"device_us", us}, {"launch_to_done_us", done}};
}

__global__ void nothing_kernel() {}

/// The first node of a step, as the engine has it, against an empty kernel and a copy node of the same bytes.
Json fetch(CudaDevice& device, int rows, int capacity) {
  CudaOps ops(device, cuda::has_hopper_kernels());
  InputShape shape;
  shape.max_tokens = 2048;
  shape.max_rows = rows;
  shape.table_width = 128;
  const StagingLayout layout(shape);
  const Buffer host[2] = {device.allocate_host(layout.bytes), device.allocate_host(layout.bytes)};
  const Buffer to = device.allocate(layout.bytes), selector = device.allocate_host(4);
  const void* from[2] = {host[0].data(), host[1].data()};
  const std::int64_t bytes = layout.block_tables + 4LL * shape.n_slots() * shape.table_width + 4LL * capacity;
  Json row = {{"rows", rows}, {"tokens", capacity}, {"bytes", bytes}};
  row["empty"] = replay_times(device, [&] { nothing_kernel<<<1, 32, 0, device.stream()>>>(); });
  row["fetch_kernel"] = replay_times(
      device, [&] { ops.fetch_inputs(to.data(), from, selector.as<std::int32_t>(), layout, shape, capacity); });
  row["copy_node"] = replay_times(device, [&] {
    CUDA_CHECK(cudaMemcpyAsync(to.data(), host[0].data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                               device.stream()));
  });
  return row;
}

}  // namespace

Json pinned_memory() {
  CudaDevice device(false);
  Json fetches = Json::array();
  for (const auto& [rows, capacity] : {std::pair{1, 1}, {64, 128}, {64, 2048}, {256, 256}})
    fetches.push_back(fetch(device, rows, capacity));
  return {{"read_latency_us", read_latency_us(device)}, {"fetches", fetches}};
}

}  // namespace monograph::limits
