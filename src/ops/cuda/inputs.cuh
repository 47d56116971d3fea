// The attention work list that derive_inputs makes and attend walks.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace monograph {

inline constexpr int kDeriveThreads = 512;
inline constexpr int kMaxDeriveSlots = 1025;  // SPEC A.7: Bmax <= 1024

namespace cuda {

/// All that a CTA has to know of its tile, in one 32-byte load.
struct alignas(16) AttentionItem {
  std::int32_t slot, tile, first_token, length, prefix, unused[3];
};

/// A tile is `tile_rows` rows of (token, query head of one kv head) of one slot.
struct AttentionWork {
  AttentionItem* items = nullptr;
  std::int32_t* n_items = nullptr;
  int heads_per_kv = 1;
  int tile_rows = 64;
};

}  // namespace cuda
}  // namespace monograph
