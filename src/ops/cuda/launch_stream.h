// Where kernels are launched, and with it which of the two paths they are of.
#pragma once
#include <cuda_runtime.h>

namespace monograph::cuda {

/// A stream of one path. On Hopper's, launches have programmatic edges and may have clusters, and the kernels of this
/// folder run. On the other, launches are plain and products and attention are those of sm80/, which need compute
/// capability 8.0. Rows have the same bits on both.
struct LaunchStream {
  cudaStream_t stream;
  bool hopper;
  LaunchStream(cudaStream_t stream, bool hopper = true) : stream(stream), hopper(hopper) {}
};

}  // namespace monograph::cuda
