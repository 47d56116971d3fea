// How the rows of the qkv matrix are packed within a head, so that the quad of lanes that holds 32 neighbouring product
// columns of a row (a *group*) holds 16 rotation pairs whole.
#pragma once

namespace monograph::cuda {

inline constexpr int kGroup = 32;

/// Dimension of a head of D that packed row `row` of the head holds: groups of [16 low][16 high] dimensions, low i with
/// high i + D / 2. Lane c of the quad, which holds columns 2 c and 2 c + 1 of each 8, gets four neighbouring low
/// dimensions, 4 c .. 4 c + 3, and the four high ones. D not a multiple of 32: as it is.
constexpr int packed_dimension(int row, int head_dim) {
  if (head_dim % kGroup != 0) return row;
  const int tile = row % kGroup / 8, lane = row % 8 / 2;
  return row / kGroup * 16 + lane * 4 + tile % 2 * 2 + row % 2 + tile / 2 * (head_dim / 2);
}

}  // namespace monograph::cuda
