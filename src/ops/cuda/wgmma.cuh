// wgmma m64nNk16 on bf16 operands in shared memory, the bulk tensor copies that bring them there, and the barriers
// between. The same class of bits as mma.sync m16n8k16: K in steps of 16, in order, into one fp32 accumulator.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/tensor_core.cuh"
#include "ops/cuda/wgmma_registers.cuh"

namespace monograph::cuda {

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nwaiting:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra "
      "waiting;\ndone:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// The same for a barrier that other CTAs of the cluster complete: what they wrote before is visible after.
__device__ __forceinline__ void barrier_wait_cluster(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nwaiting:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@p bra "
      "done;\nbra waiting;\ndone:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// A box of a 2-D tensor map at (column, row), into 1024-byte-aligned shared memory; completes on the barrier.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap* map, int column, int row,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}
/// The same of a 3-D map, at (column, row, plane).
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap* map, int column, int row, int plane,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(plane)
      : "memory");
}

/// A value that all lanes have, as one that is known to be the same: loops over it and what they count stay in uniform
/// registers, which wgmma's operands have to be in.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(~0u, value, 0); }

/// Operand tile in shared memory: rows of 64 bf16 (128 bytes), 128-byte swizzle, groups of 8 rows 1,024 bytes apart.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

/// A box as copy_box brings it, to the same place in every CTA of `ctas` (a mask of ranks); completes on the barrier at
/// the same place in each.
__device__ __forceinline__ void copy_box_to_all(std::uint32_t to, const CUtensorMap* map, int column, int row,
                                                std::uint32_t barrier, std::uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "h"(ctas)
      : "memory");
}

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// All threads of a cluster's CTAs that have not left arrive; who waits sees what the others wrote before they did.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
/// All threads of all CTAs of the cluster meet here. Orders nothing but barrier initialisation (a fence of its own).
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
/// The address of CTA `rank`'s copy of a place in shared memory.
__device__ __forceinline__ std::uint32_t in_cta(std::uint32_t address, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
/// For a reader that has finished: orders no writes (a release at cluster scope costs a fence over the whole GPU).
__device__ __forceinline__ void barrier_arrive_in_cta(std::uint32_t barrier, int rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(in_cta(barrier, rank)) : "memory");
}
/// Four floats into CTA `rank`'s shared memory; counts 16 bytes on its barrier.
__device__ __forceinline__ void store_in_cta(std::uint32_t to, float a, float b, float c, float d,
                                             std::uint32_t barrier, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   in_cta(to, rank)),
               "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)), "r"(__float_as_uint(d)),
               "r"(in_cta(barrier, rank))
               : "memory");
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// The compiler may not move a use of these registers across this point, past the wait for the product that owns them.
template <int N>
__device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// d [64, N] += a [64, 16] b [N, 16]^T; thread layout of d as mma.sync's, 8 columns a tile.
template <int N>
struct Wgmma;

#define MONOGRAPH_WGMMA(N, A, B, ONE)                                                                   \
  template <>                                                                                           \
  struct Wgmma<N> {                                                                                     \
    static __device__ __forceinline__ void run(float (&d)[N / 2], std::uint64_t a, std::uint64_t b) {   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ONE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
                   "k16.f32.bf16.bf16 {" MONOGRAPH_REGISTERS_##N "}, " A ", " B ", p, 1, 1, 0, 0;\n}\n" \
                   : MONOGRAPH_OPERANDS_##N                                                             \
                   : "l"(a), "l"(b), "r"(1));                                                           \
    }                                                                                                   \
  };
MONOGRAPH_WGMMA(16, "%8", "%9", "%10")
MONOGRAPH_WGMMA(32, "%16", "%17", "%18")
MONOGRAPH_WGMMA(48, "%24", "%25", "%26")
MONOGRAPH_WGMMA(64, "%32", "%33", "%34")
MONOGRAPH_WGMMA(96, "%48", "%49", "%50")
MONOGRAPH_WGMMA(128, "%64", "%65", "%66")
MONOGRAPH_WGMMA(192, "%96", "%97", "%98")
MONOGRAPH_WGMMA(256, "%128", "%129", "%130")
#undef MONOGRAPH_WGMMA

}  // namespace monograph::cuda
