// wgmma m64nNk16 with its first operand in registers, as attention needs it: queries times keys, weights times values.
#pragma once
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

/// Values as second operand, [16, N] of a tile [64, N]: rows of 64 bf16 (128 bytes), 128-byte swizzle, 64 columns after
/// 64 columns 8,192 bytes apart.
__device__ __forceinline__ std::uint64_t transposed_operand(std::uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | (512ull << 16) | (64ull << 32) | (1ull << 62);
}

/// d [64, N] (+)= a [64, 16] b, b as operand() [N, 16]^T or as transposed_operand() [16, N]. Layouts of a and d as
/// mma.sync's.
template <int N, int Transposed>
struct RegisterWgmma;
#define MONOGRAPH_WGMMA(N, A, B, ACCUMULATE, TRANSPOSED)                                                            \
  template <int Transposed>                                                                                         \
  struct RegisterWgmma<N, Transposed> {                                                                             \
    static __device__ __forceinline__ void run(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t b,     \
                                               int accumulate) {                                                    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ACCUMULATE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N      \
                   "k16.f32.bf16.bf16 {" MONOGRAPH_REGISTERS_##N "}, {" A "}, " B ", p, 1, 1, " TRANSPOSED ";\n}\n" \
                   : MONOGRAPH_OPERANDS_##N                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(Transposed));         \
    }                                                                                                               \
  };
MONOGRAPH_WGMMA(64, "%32, %33, %34, %35", "%36", "%37", "%38")
MONOGRAPH_WGMMA(96, "%48, %49, %50, %51", "%52", "%53", "%54")
MONOGRAPH_WGMMA(128, "%64, %65, %66, %67", "%68", "%69", "%70")
#undef MONOGRAPH_WGMMA

}  // namespace monograph::cuda
