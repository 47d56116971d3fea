// Tensor maps for the bulk copy engine; boxes are 128-byte swizzled, 64 columns wide.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace monograph::cuda {

/// A [rows, K] bf16 matrix as boxes of `box_rows` x 64.
CUtensorMap make_tensor_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows);

/// The same as boxes of `box_blocks` blocks of 64 columns, each block `box_rows` rows of 128 bytes: 3-D, at (0, row,
/// block). K is a multiple of 64; rows past the end are zeros.
CUtensorMap make_block_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows, int box_blocks);

/// q [C, H, D] as boxes of `box_tokens` x `box_heads` x 64: 3-D, at (dimension, head, token).
CUtensorMap make_query_map(const void* q, int n_tokens, int n_heads, int head_dim, int box_tokens, int box_heads);

}  // namespace monograph::cuda
