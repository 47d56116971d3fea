// How the rows of the qkv matrix are packed within a head, so that the quad of lanes that holds 32 neighbouring product
// columns of a row (a *group*) holds 16 rotation pairs whole.
#pragma once

namespace monograph::cuda {

inline constexpr int kGroup = 32;

/// Dimension of a head of D that packed row `row` of the head holds: groups of [16 low][16 high] dimensions, low i with
/// high i + D / 2. D not a multiple of 32: as it is.
constexpr int packed_dimension(int row, int head_dim) {
  if (head_dim % kGroup != 0) return row;
  return row / kGroup * 16 + row % 16 + (row % kGroup >= 16 ? head_dim / 2 : 0);
}

}  // namespace monograph::cuda
