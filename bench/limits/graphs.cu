#include "gpu_limits.h"

namespace monograph::limits {
namespace {

// One dependent step: waits for the kernel before it, adds one. The trigger comes first, so that the next one may
// start.
__global__ void link_kernel(int* cells) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (threadIdx.x == 0) cells[blockIdx.x] += 1;
}

void launch_link(cudaStream_t stream, int ctas, bool programmatic, int* cells) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = ctas;
  config.blockDim = 128;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, link_kernel, cells));
}

Json chain(CudaDevice& device, int nodes, int ctas, bool programmatic, int* cells) {
  const auto graph = device.capture([&] {
    for (int i = 0; i < nodes; ++i) launch_link(device.stream(), ctas, programmatic, cells);
  });
  const double us = device_us(device, 50, [&](int) { graph->replay(); });
  const double launch = host_us(
      50, [&] { graph->replay(); }, [&] { device.synchronize(); });
  const double whole = host_us(
      50,
      [&] {
        graph->replay();
        device.synchronize();
      },
      [] {});
  return {{"nodes", nodes},
          {"ctas", ctas},
          {"programmatic_edges", programmatic},
          {"device_us", us},
          {"us_a_node", us / nodes},
          {"launch_us", launch},
          {"launch_to_done_us", whole},
          {"memory_bytes", graph->device_bytes()}};
}

}  // namespace

Json graphs(CudaDevice& device) {
  const Buffer cells = device.allocate(4 * 1024);
  Json rows = Json::array();
  for (int ctas : {1, 132, 528})
    for (bool programmatic : {false, true})
      for (int nodes : {1, 64, 144, 256, 512, 1000})
        if (ctas == 132 || nodes == 256) rows.push_back(chain(device, nodes, ctas, programmatic, cells.as<int>()));
  constexpr int kLaunches = 256;  // fewer than the queue takes
  const double launches = host_us(
      20,
      [&] {
        for (int i = 0; i < kLaunches; ++i) launch_link(device.stream(), 132, false, cells.as<int>());
      },
      [&] { device.synchronize(); });
  return {{"chains", rows}, {"launch_without_graph_us", launches / kLaunches}};
}

}  // namespace monograph::limits
