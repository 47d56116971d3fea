#include "gpu_limits.h"

namespace monograph::limits {
namespace {

constexpr std::int64_t kArea = std::int64_t{8} << 30;  // far more than any cache; pieces are taken in turn

// CTAs stride over the piece with 16-byte loads, four in flight; the sum keeps the loads alive.
__global__ void read_kernel(const int4* from, std::int64_t n, int* sink) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  int sum = 0;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < n; i += 4 * stride) {
    const int4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
    sum += a.x ^ b.y ^ c.z ^ d.w;
  }
  for (; i < n; i += stride) sum += from[i].x;
  if (sum == 0x12345678) *sink = sum;
}

__global__ void fill_kernel(std::uint32_t* to, std::int64_t n) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<std::uint32_t>(i * 2654435761u);
}

Json row(std::int64_t bytes, double us, double moved) {
  return {{"bytes", bytes}, {"us", us}, {"tb_s", moved / us / 1e6}};
}

}  // namespace

Json bandwidth(CudaDevice& device) {
  const Buffer area = device.allocate(kArea), sink = device.allocate(4);
  fill_kernel<<<1056, 512, 0, device.stream()>>>(area.as<std::uint32_t>(), kArea / 4);
  CUDA_CHECK(cudaGetLastError());
  Json read = Json::array(), copy = Json::array();
  double best = 0;
  for (std::int64_t bytes = 4 << 20; bytes <= std::int64_t{4} << 30; bytes *= 4) {
    const std::int64_t n_pieces = kArea / bytes;
    const auto piece = [&](int i) { return area.as<char>() + (i * std::int64_t{131} % n_pieces) * bytes; };
    const double read_us = device_us(device, 15, [&](int i) {
      read_kernel<<<528, 512, 0, device.stream()>>>(reinterpret_cast<const int4*>(piece(i)), bytes / 16,
                                                    sink.as<int>());
      CUDA_CHECK(cudaGetLastError());
    });
    read.push_back(row(bytes, read_us, static_cast<double>(bytes)));
    best = std::max(best, static_cast<double>(bytes) / read_us / 1e6);
    const std::int64_t half = kArea / 2, n_halves = std::max<std::int64_t>(1, half / bytes);
    const double copy_us = device_us(device, 15, [&](int i) {
      char* from = area.as<char>() + (i * std::int64_t{131} % n_halves) * bytes;
      CUDA_CHECK(cudaMemcpyAsync(from + half, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                                 device.stream()));
    });
    copy.push_back(row(bytes, copy_us, 2.0 * static_cast<double>(bytes)));
  }
  return {{"read", read}, {"copy", copy}, {"bw_tb_s", best}};
}

}  // namespace monograph::limits
