// What the first nodes leave for those behind them: the choice of what to fetch, the attention work list.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace monograph {

inline constexpr int kDeriveThreads = 512;
inline constexpr int kMaxDeriveSlots = 1025;  // SPEC A.7: Bmax <= 1024

namespace cuda {

/// Which host area a step was staged into, and how much of its optional parts there is.
struct FetchChoice {
  std::int32_t area, n_bias, n_banned;
};

/// All that a CTA has to know of its tile, and the slot's first blocks (of table 0), so that no load waits for the
/// table.
struct alignas(64) AttentionItem {
  std::int32_t slot, tile, first_token, length, prefix, unused[3];
  std::int32_t blocks[8];
};

/// What stands before a work list's items; and no rule of attention has tiles of fewer rows.
inline constexpr int kWorkHeaderBytes = 256, kLeastTileRows = 16;

/// A tile is `tile_rows` rows of (token, query head of one kv head) of one slot.
struct AttentionWork {
  AttentionItem* items = nullptr;
  std::int32_t* n_items = nullptr;
  std::int32_t *n_taken = nullptr, *n_done = nullptr;  // where CTAs take items: how many, and CTAs that found none left
  int heads_per_kv = 1;
  int tile_rows = 16;
};

}  // namespace cuda
}  // namespace monograph
