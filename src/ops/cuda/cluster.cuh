// The CTAs that share a row or a tile, where there are such: before compute capability 9.0 a CTA is alone.
#pragma once
#include <cooperative_groups.h>

namespace monograph::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/// Says at a kernel's definition how many neighbours in x form a cluster.
#define MONOGRAPH_CLUSTERS_OF(n) __cluster_dims__(n, 1, 1)
#else
#define MONOGRAPH_CLUSTERS_OF(n)
#endif

/// This CTA's cluster, by all threads.
class Cluster {
 public:
#if __CUDA_ARCH__ >= 900
  __device__ int rank() const { return static_cast<int>(group_.block_rank()); }
  __device__ int size() const { return static_cast<int>(group_.num_blocks()); }
  __device__ void sync() const { group_.sync(); }
  /// CTA `rank`'s copy of an object in shared memory.
  template <typename T>
  __device__ T& shared_of(T& own, int rank) const {
    return *group_.map_shared_rank(&own, rank);
  }

 private:
  cooperative_groups::cluster_group group_ = cooperative_groups::this_cluster();
#else
  __device__ int rank() const { return 0; }
  __device__ int size() const { return 1; }
  __device__ void sync() const { __syncthreads(); }
  template <typename T>
  __device__ T& shared_of(T& own, int) const {
    return own;
  }
#endif
};

}  // namespace monograph::cuda
