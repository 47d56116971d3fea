// Causal attention over paged K and V for GPUs without wgmma, bulk copies or clusters, for any number of rows: the bits
// of the other kernels.
#pragma once
#include "ops/cuda/attention.cuh"
#include "ops/cuda/launch_stream.h"

namespace monograph::cuda::sm80 {

/// Rows of a work item: few where that makes more of them.
inline int attention_tile_rows(int capacity) { return capacity <= 64 ? 16 : 64; }

/// `head_dim` is 16, 32, 64, 96, 128 or 256.
void attend(LaunchStream stream, const AttentionArguments& arg, int head_dim, int max_items);

}  // namespace monograph::cuda::sm80
