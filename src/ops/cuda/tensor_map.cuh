// Bulk tensor copies of blocks of a weight matrix.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace monograph::cuda {

/// A [rows, K] bf16 matrix as boxes of `box_blocks` blocks of 64 columns, each block `box_rows` rows of 128 bytes,
/// 128-byte swizzled. K is a multiple of 64.
CUtensorMap make_block_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows, int box_blocks);

/// The box at (row, block), into 1024-byte-aligned shared memory; rows past the end are zeros. Completes on the
/// barrier.
__device__ __forceinline__ void copy_blocks(std::uint32_t to, const CUtensorMap* map, int row, int block,
                                            std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(0), "r"(row), "r"(block)
      : "memory");
}

}  // namespace monograph::cuda
