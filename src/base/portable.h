// Code that runs on the host and, unchanged, on a GPU: the one place that knows the compiler's words for it.
#pragma once

#if defined(__CUDACC__)
#define MONOGRAPH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MONOGRAPH_HOST_DEVICE inline
#endif
