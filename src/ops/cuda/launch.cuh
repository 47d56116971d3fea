// Launching kernels, on Hopper with a programmatic edge to their predecessor, and the two device-side statements that
// belong to it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "base/check.h"
#include "device/cuda/handles.h"
#include "ops/cuda/launch_stream.h"

namespace monograph::cuda {

/// What grids aim at: the multiprocessors of an H100 or H200. Fewer or more only cost time.
inline constexpr int kMultiprocessors = 132;

/// Every kernel of a step calls this before its first read or write of anything the step changes; so completion is
/// transitive along the chain. Weights and constant tables may be read before.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the successor's CTAs start; they wait above until this grid has finished and flushed.
__device__ __forceinline__ void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

inline cudaLaunchAttribute clusters_of(int n_ctas) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(n_ctas);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  return attribute;
}

/// A kernel whose CTAs form clusters of `cluster` neighbours in x, which divides the grid.
template <typename... Parameters, typename... Arguments>
void launch_clusters(LaunchStream to, int cluster, dim3 grid, dim3 block, std::size_t shared_bytes,
                     void (*kernel)(Parameters...), Arguments... arguments) {
  CHECK(to.hopper || cluster == 1);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1] = clusters_of(cluster);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = to.stream;
  config.attrs = attributes;
  config.numAttrs = !to.hopper ? 0 : cluster > 1 ? 2 : 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

template <typename... Parameters, typename... Arguments>
void launch(LaunchStream to, dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(Parameters...),
            Arguments... arguments) {
  launch_clusters(to, 1, grid, block, shared_bytes, kernel, arguments...);
}

/// Clusters of this kernel that the GPU runs at once.
template <typename Kernel>
int resident_clusters(Kernel kernel, int threads, std::size_t shared_bytes, int cluster) {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(cluster);
  config.blockDim = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = shared_bytes;
  cudaLaunchAttribute attribute = clusters_of(cluster);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int n_clusters = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveClusters(&n_clusters, kernel, &config));
  return n_clusters;
}

/// Raises a kernel's dynamic shared memory limit; outside captures, once per kernel.
template <typename Kernel>
void allow_shared(Kernel kernel, int bytes) {
  if (bytes > 48 * 1024) CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

}  // namespace monograph::cuda
