// Which product kernel serves which number of rows. All are one class of bits, so the choice never shows in a result.
#pragma once
#include "ops/cuda/gemm_narrow.cuh"
#include "ops/cuda/gemm_wide.cuh"
#include "ops/cuda/sm80/gemm.h"

namespace monograph::cuda {

/// At most kNarrowRows rows; with a norm, rows that can_norm.
template <bool kNorm, typename Epilogue>
void gemm_narrow(cudaStream_t stream, const GemmInputs& in, const RowNorm& norm, const Epilogue& epilogue) {
  launch_narrow<1, kNorm>(stream, in, norm, k_segments(in.n, in.k), NarrowTuning{}, epilogue);
}

/// Multiprocessors that clusters of four or more can fill: not every group of them on the chip divides.
inline constexpr int kInLargeClusters = 120;

/// A tile shape for the wide kernel; kTileSegments: whether it can sum segments of K apart (twice the accumulators).
template <int BM, int BN, int CM, int CN, bool kTileSegments = false>
struct WideChoice {
  using Tile = WideTile<BM, BN, CM, CN>;
  static constexpr bool kSegments = kTileSegments;
};

/// Cycles that a product takes with these tiles, near enough to choose by: in as many waves as the tiles need, the
/// tensor cores' time, a multiprocessor's intake or the L2's output, whichever is longest, and what a tile costs
/// besides. The constants fit the times that gemm_bench gives for both Qwen3 shapes on an H200 (the tile chosen is
/// within 1 % of the best on average).
template <typename Tile>
double wide_cycles(int rows, int n, int k) {
  constexpr double kIntake = 100, kL2 = 5200;               // bytes a cycle: of one multiprocessor, of all
  constexpr double kChunk = 330, kTile = 1300, kRow = 0.6;  // cycles: least of a chunk, of a tile, of 64 of its values
  const WideGrid<Tile> grid(rows, n);
  const int per_multiprocessor = Tile::kSmall ? 2 : 1;
  const int at_once = (Tile::kCtas <= 2 ? kMultiprocessors : kInLargeClusters) / Tile::kCtas * per_multiprocessor;
  const double waves = (grid.n_items() + at_once - 1) / at_once, busy = std::min(grid.n_items(), at_once) * Tile::kCtas;
  const double sharing = std::max(1.0, busy / kMultiprocessors);
  const double tensor = 2.0 * Tile::BN * (Tile::BM / 64) * sharing, intake = Tile::kStageBytes / kIntake * sharing,
               l2 = busy * (Tile::kABytes / Tile::CN + Tile::kWBytes / Tile::CM) / kL2;
  return waves * (k / 64 * std::max({tensor, intake, l2, kChunk}) + kTile + kRow * Tile::BN * Tile::BM / 64);
}

template <typename... Choices, typename Epilogue>
void launch_cheapest(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  const bool segments = k_segments(in.n, in.k) > 1;
  double least = 1e30;
  void (*best)(cudaStream_t, const GemmInputs&, const Epilogue&) = nullptr;
  const auto consider = [&]<typename Choice>() {
    using Tile = typename Choice::Tile;
    if (segments && !Choice::kSegments) return;
    if constexpr (Epilogue::kWholeHeads) {
      // Whole heads in a tile, or one head over neighbours of a cluster that has just this tile to do.
      const int d = epilogue.head_dim;
      const bool whole = Tile::BN % d == 0,
                 spread = d % Tile::BN == 0 && Tile::CN % (d / Tile::BN) == 0 &&
                          WideGrid<Tile>(in.max_rows, in.n).n_items() * Tile::kCtas <= kInLargeClusters;
      if (!whole && !spread) return;
    }
    if (const double cycles = wide_cycles<Tile>(in.max_rows, in.n, in.k); cycles < least) {
      least = cycles;
      best = launch_wide<Tile, Choice::kSegments, Epilogue>;
    }
  };
  (consider.template operator()<Choices>(), ...);
  CHECK(best);
  best(stream, in, epilogue);
}

inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const AddResidual& epilogue) {
  launch_cheapest<WideChoice<64, 16, 1, 4, true>, WideChoice<64, 32, 1, 4, true>, WideChoice<64, 64, 1, 2, true>,
                  WideChoice<128, 32, 1, 2, true>, WideChoice<128, 64, 2, 1, true>, WideChoice<128, 128, 2, 1, true>,
                  WideChoice<128, 256, 2, 1>>(stream, in, epilogue);
}
inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const GatedSilu& epilogue) {
  launch_cheapest<WideChoice<64, 32, 1, 4, true>, WideChoice<64, 96, 1, 2>, WideChoice<128, 96, 1, 2>,
                  WideChoice<128, 192, 2, 1>, WideChoice<128, 256, 2, 1>>(stream, in, epilogue);
}
inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const StoreFloat& epilogue) {
  launch_cheapest<WideChoice<64, 32, 1, 4, true>, WideChoice<64, 192, 1, 2>, WideChoice<128, 256, 2, 1>>(stream, in,
                                                                                                         epilogue);
}
inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const StoreHeads& epilogue) {
  // The two that summing segments makes spill stand twice: as they are wherever K is one segment.
  launch_cheapest<WideChoice<64, 32, 1, 4, true>, WideChoice<64, 64, 1, 2, true>, WideChoice<64, 96, 1, 2>,
                  WideChoice<64, 96, 1, 2, true>, WideChoice<128, 64, 1, 2, true>, WideChoice<128, 128, 2, 1, true>,
                  WideChoice<128, 256, 2, 1>, WideChoice<128, 256, 2, 1, true>>(stream, in, epilogue);
}

template <typename Epilogue>
void gemm(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  if (!stream.hopper) return sm80::gemm(stream, in, epilogue);
  if (in.max_rows <= kNarrowRows) return gemm_narrow<false>(stream.stream, in, RowNorm{}, epilogue);
  gemm_wide(stream.stream, in, epilogue);
}

}  // namespace monograph::cuda
