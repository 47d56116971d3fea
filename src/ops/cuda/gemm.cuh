// Which product kernel serves which number of rows. All are one class of bits, so the choice never shows in a result.
#pragma once
#include "ops/cuda/gemm_narrow.cuh"
#include "ops/cuda/gemm_wide.cuh"
#include "ops/cuda/sm80/gemm.h"

namespace monograph::cuda {

/// At most kNarrowRows rows.
template <typename Epilogue>
void gemm_narrow(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  launch_narrow<1>(stream, in, k_segments(in.n, in.k), NarrowTuning{}, epilogue);
}

/// Multiprocessors that clusters of four or more can fill: not every group of them on the chip divides.
inline constexpr int kInLargeClusters = 120;

/// Cycles that a product takes with these tiles, near enough to choose by: in as many waves as the tiles need, the
/// tensor cores' time, a multiprocessor's intake, the L2's output or what the ring's length lets be under way,
/// whichever is longest, and what a tile costs besides. The constants are fitted to the times that gemm_bench gives for
/// both Qwen3 shapes on an H200 (the tile chosen is within 2 % of the best on average).
template <typename Tile>
double wide_cycles(int rows, int n, int k, bool heads) {
  constexpr double kIntake = 61, kL2 = 8000;  // bytes a cycle: of one multiprocessor, of all
  constexpr double kLatency = 2180;           // cycles from a copy's start to its end
  constexpr double kTensor = 1.25;            // what the tensor cores take over what they could
  // Cycles: least of a box, of a tile, of 64 of its values, of a head's sums that two CTAs exchange, of segments that
  // meet.
  constexpr double kBox = 400.0 / Tile::kDepth + 1.3 * Tile::BN + (Tile::kCtas > 1 ? 112 : 0);
  constexpr double kTile = 1230, kRow = 12, kExchange = 3740,
                   kMeet = Tile::CK > 1 ? 1300 + 0.39 * Tile::BM * Tile::BN : 0;
  const WideGrid<Tile> grid(rows, n);
  const int at_once = (Tile::kCtas <= 2 ? kMultiprocessors : kInLargeClusters) / Tile::kCtas * (Tile::kSmall ? 2 : 1);
  const double waves = (grid.n_items() + at_once - 1) / at_once, busy = std::min(grid.n_items(), at_once) * Tile::kCtas;
  const double sharing = std::max(1.0, busy / kMultiprocessors),
               alone = Tile::kSmall ? std::max(1.0, sharing / 2) : sharing;
  const double box =
      std::min(Tile::BM, (rows + 7) / 8 * 8) * 128 + Tile::kWBytes;  // rows that do not exist cost nothing
  const double tensor = kTensor * 2 * Tile::BN * (Tile::BM / 64) * sharing, intake = box / kIntake * sharing,
               under_way = box * kLatency / ((Tile::kStages - 1) * Tile::kStageBytes) * alone,
               l2 = busy * (Tile::kABytes / Tile::CN + Tile::kWBytes / Tile::CM) / kL2;
  return waves * (k / 64 / Tile::CK * std::max({tensor, intake, under_way, l2, kBox}) + kTile +
                  kRow * Tile::BN * Tile::BM / 64 / Tile::CK + kMeet + (heads && Tile::BN < 128 ? kExchange : 0));
}

/// Whether a tile can end a product with that epilogue: a head of the qkv product lies whole in a tile, or spread over
/// neighbours of a cluster.
template <typename Tile, typename Epilogue>
constexpr bool suits() {
  if constexpr (Epilogue::kWholeHeads) {
    constexpr int d = Epilogue::kHeadDim;
    return Tile::BN % d == 0 || (d % Tile::BN == 0 && Tile::CN % std::max(1, d / Tile::BN) == 0);
  } else {
    return true;
  }
}
/// The same for these inputs. CTAs that share K or heads have just one tile to do, and should all run at once.
template <typename Tile, typename Epilogue>
bool suits(const GemmInputs& in, const Epilogue& epilogue) {
  if constexpr (std::is_same_v<Epilogue, AddResidual>)
    if (epilogue.next.columns > Tile::BN) return false;
  const int n_ctas = WideGrid<Tile>(in.max_rows, in.n).n_items() * Tile::kCtas;
  if (spreads_heads<Tile, Epilogue>() && n_ctas > kInLargeClusters) return false;
  if (Tile::CK > 1 && n_ctas > kInLargeClusters * (Tile::kSmall ? 2 : 1)) return false;
  return sums_segments<Tile>(in.n, in.k);
}

/// False, and nothing done, if none of the tiles suits.
template <typename... Tiles, typename Epilogue>
bool try_cheapest(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  double least = 1e30;
  void (*best)(cudaStream_t, const GemmInputs&, const Epilogue&) = nullptr;
  const auto consider = [&]<typename Tile>() {
    if constexpr (suits<Tile, Epilogue>()) {
      if (!suits<Tile>(in, epilogue)) return;
      const double cycles = wide_cycles<Tile>(in.max_rows, in.n, in.k, Epilogue::kWholeHeads);
      if (cycles < least) least = cycles, best = launch_wide<Tile, Epilogue>;
    }
  };
  (consider.template operator()<Tiles>(), ...);
  if (best) best(stream, in, epilogue);
  return best != nullptr;
}

template <typename... Tiles, typename Epilogue>
void launch_cheapest(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  const bool done = try_cheapest<Tiles...>(stream, in, epilogue);
  CHECK(done);
}

inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const AddResidual& epilogue) {
  launch_cheapest<WideTile<64, 32, 1, 1, true>, DeepTile<64, 32, 1, 1, true>, DeepTile<64, 64, 1, 1, true>,
                  WideTile<128, 32, 1, 2, true>, WideTile<128, 64, 2, 1, true>, WideTile<128, 128, 2, 1, true>,
                  WideTile<128, 256, 2, 1>, WideTile<64, 32, 1, 1, false, 4>, WideTile<64, 64, 1, 1, false, 4>,
                  WideTile<128, 64, 1, 1, false, 4>>(stream, in, epilogue);
}
inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const GatedSilu& epilogue) {
  launch_cheapest<WideTile<64, 32, 1, 1, true>, DeepTile<64, 96, 1, 1>, WideTile<128, 48, 1, 1>,
                  WideTile<128, 96, 1, 1>, WideTile<128, 192, 2, 1>, WideTile<128, 256, 2, 1>>(stream, in, epilogue);
}
inline void gemm_wide(cudaStream_t stream, const GemmInputs& in, const StoreFloat& epilogue) {
  launch_cheapest<WideTile<64, 32, 1, 4, true>, WideTile<64, 192, 1, 2>, WideTile<128, 256, 2, 1>>(stream, in,
                                                                                                   epilogue);
}
/// The qkv product with its end. That may be too much for few rows at once, or no tile may suit heads of such a width
/// where K is summed in segments: then it does nothing and returns false.
template <int kHeadDim, bool kByIds>
bool gemm_heads(cudaStream_t stream, const GemmInputs& in, const StoreHeads<kHeadDim, kByIds>& epilogue) {
  if (!is_narrow(in))
    return try_cheapest<WideTile<64, 32, 1, 4, true>, DeepTile<64, 64, 1, 2, true>, WideTile<64, 96, 1, 2>,
                        WideTile<128, 64, 1, 2, true>, WideTile<128, 128, 2, 1, true>, WideTile<128, 256, 2, 1>>(
        stream, in, epilogue);
  NarrowTuning tuning;
  tuning.teams = narrow_head_teams<kHeadDim / kGroup>(in);
  if (tuning.teams > 0) launch_narrow<1>(stream, in, k_segments(in.n, in.k), tuning, epilogue);
  return tuning.teams > 0;
}

template <typename Epilogue>
void gemm(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  if (!stream.hopper) return sm80::gemm(stream, in, epilogue);
  if (is_narrow(in)) return gemm_narrow(stream.stream, in, epilogue);
  gemm_wide(stream.stream, in, epilogue);
}

}  // namespace monograph::cuda
