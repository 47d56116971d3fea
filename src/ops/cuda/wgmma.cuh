// wgmma m64nNk16 on bf16 operands in shared memory, the bulk tensor copies that bring them there, and the barriers
// between. The same class of bits as mma.sync m16n8k16: K in steps of 16, in order, into one fp32 accumulator.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/tensor_core.cuh"

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
/// `bytes` contiguous bytes (a multiple of 16), into 16-byte-aligned shared memory; completes on the barrier.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes,
                                           std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

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
/// One float into CTA `rank`'s shared memory; counts 4 bytes on its barrier.
__device__ __forceinline__ void store_in_cta(std::uint32_t to, float value, std::uint32_t barrier, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(in_cta(to, rank)),
               "r"(__float_as_uint(value)), "r"(in_cta(barrier, rank))
               : "memory");
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// d [64, N] += a [64, 16] b [N, 16]^T; thread layout of d as mma.sync's, 8 columns a tile.
template <int N>
struct Wgmma;

// The instruction for one N: its N / 2 registers as text and as operands, eight at a time.
// clang-format off
#define MONOGRAPH_R0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MONOGRAPH_R1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define MONOGRAPH_R2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define MONOGRAPH_R3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define MONOGRAPH_R4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define MONOGRAPH_R5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define MONOGRAPH_R6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define MONOGRAPH_R7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define MONOGRAPH_R8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define MONOGRAPH_R9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define MONOGRAPH_R10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define MONOGRAPH_R11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define MONOGRAPH_R12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define MONOGRAPH_R13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define MONOGRAPH_R14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define MONOGRAPH_R15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define MONOGRAPH_D(i) "+f"(d[8 * i]), "+f"(d[8 * i + 1]), "+f"(d[8 * i + 2]), "+f"(d[8 * i + 3]), "+f"(d[8 * i + 4]), \
  "+f"(d[8 * i + 5]), "+f"(d[8 * i + 6]), "+f"(d[8 * i + 7])
#define MONOGRAPH_WGMMA(N, A, B, ONE, REGISTERS, ...)                                                          \
  template <>                                                                                                  \
  struct Wgmma<N> {                                                                                            \
    static __device__ __forceinline__ void run(float (&d)[N / 2], std::uint64_t a, std::uint64_t b) {          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ONE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N         \
                   "k16.f32.bf16.bf16 {" REGISTERS "}, " A ", " B ", p, 1, 1, 0, 0;\n}\n"                      \
                   : __VA_ARGS__                                                                               \
                   : "l"(a), "l"(b), "r"(1));                                                                  \
    }                                                                                                          \
  };
MONOGRAPH_WGMMA(16, "%8", "%9", "%10", MONOGRAPH_R0,
                MONOGRAPH_D(0))
MONOGRAPH_WGMMA(32, "%16", "%17", "%18", MONOGRAPH_R0 ", " MONOGRAPH_R1,
                MONOGRAPH_D(0), MONOGRAPH_D(1))
MONOGRAPH_WGMMA(48, "%24", "%25", "%26", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2))
MONOGRAPH_WGMMA(64, "%32", "%33", "%34", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2 ", " MONOGRAPH_R3,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2), MONOGRAPH_D(3))
MONOGRAPH_WGMMA(96, "%48", "%49", "%50", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2 ", " MONOGRAPH_R3 ", " MONOGRAPH_R4 ", " MONOGRAPH_R5,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2), MONOGRAPH_D(3), MONOGRAPH_D(4), MONOGRAPH_D(5))
MONOGRAPH_WGMMA(128, "%64", "%65", "%66", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2 ", " MONOGRAPH_R3 ", " MONOGRAPH_R4 ", " MONOGRAPH_R5 ", " MONOGRAPH_R6 ", " MONOGRAPH_R7,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2), MONOGRAPH_D(3), MONOGRAPH_D(4), MONOGRAPH_D(5), MONOGRAPH_D(6), MONOGRAPH_D(7))
MONOGRAPH_WGMMA(192, "%96", "%97", "%98", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2 ", " MONOGRAPH_R3 ", " MONOGRAPH_R4 ", " MONOGRAPH_R5 ", " MONOGRAPH_R6 ", " MONOGRAPH_R7 ", " MONOGRAPH_R8 ", " MONOGRAPH_R9 ", " MONOGRAPH_R10 ", " MONOGRAPH_R11,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2), MONOGRAPH_D(3), MONOGRAPH_D(4), MONOGRAPH_D(5), MONOGRAPH_D(6), MONOGRAPH_D(7), MONOGRAPH_D(8), MONOGRAPH_D(9), MONOGRAPH_D(10), MONOGRAPH_D(11))
MONOGRAPH_WGMMA(256, "%128", "%129", "%130", MONOGRAPH_R0 ", " MONOGRAPH_R1 ", " MONOGRAPH_R2 ", " MONOGRAPH_R3 ", " MONOGRAPH_R4 ", " MONOGRAPH_R5 ", " MONOGRAPH_R6 ", " MONOGRAPH_R7 ", " MONOGRAPH_R8 ", " MONOGRAPH_R9 ", " MONOGRAPH_R10 ", " MONOGRAPH_R11 ", " MONOGRAPH_R12 ", " MONOGRAPH_R13 ", " MONOGRAPH_R14 ", " MONOGRAPH_R15,
                MONOGRAPH_D(0), MONOGRAPH_D(1), MONOGRAPH_D(2), MONOGRAPH_D(3), MONOGRAPH_D(4), MONOGRAPH_D(5), MONOGRAPH_D(6), MONOGRAPH_D(7), MONOGRAPH_D(8), MONOGRAPH_D(9), MONOGRAPH_D(10), MONOGRAPH_D(11), MONOGRAPH_D(12), MONOGRAPH_D(13), MONOGRAPH_D(14), MONOGRAPH_D(15))
#undef MONOGRAPH_WGMMA
#undef MONOGRAPH_D
#undef MONOGRAPH_R0
#undef MONOGRAPH_R1
#undef MONOGRAPH_R2
#undef MONOGRAPH_R3
#undef MONOGRAPH_R4
#undef MONOGRAPH_R5
#undef MONOGRAPH_R6
#undef MONOGRAPH_R7
#undef MONOGRAPH_R8
#undef MONOGRAPH_R9
#undef MONOGRAPH_R10
#undef MONOGRAPH_R11
#undef MONOGRAPH_R12
#undef MONOGRAPH_R13
#undef MONOGRAPH_R14
#undef MONOGRAPH_R15
// clang-format on

}  // namespace monograph::cuda
