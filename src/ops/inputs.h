// Everything a forward reads besides weights: fixed buffers, filled per step (SPEC A.2).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "monograph/sampling.h"

namespace monograph {

/// Sampling settings of one slot, as the device reads them. Plain bytes, shared by host and device.
struct SlotSampling {
  float temperature = 0.0f;  ///< 0: greedy
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::int32_t top_k = 0;    ///< 0: all
  std::int32_t samples = 0;  ///< 1 if this row's token is wanted; 0 for a chunk that is not the last.
  std::uint64_t seed = 0;
  std::int32_t history_row = 0;  ///< Row of History that holds this sequence's token ids.
  std::int32_t prompt_len = 0;   ///< Tokens of history that are prompt (presence and frequency skip them).
  std::int32_t n_logprobs = -1;  ///< -1: none
  std::int32_t bias_begin = 0, bias_count = 0;      ///< Range of `bias`.
  std::int32_t banned_begin = 0, banned_count = 0;  ///< Range of `banned`.
  std::int32_t n_found = 0;  ///< First ids of the prefix that this step takes from History::found.
};
static_assert(sizeof(SlotSampling) == 72);

struct BiasEntry {
  std::int32_t id;
  float value;
};

/// What a step gives back per row; written by the graph's last node.
struct SampledRow {
  std::int32_t token = -1;  ///< -1: this row samples nothing; -2: its logits hold a NaN (SA15)
  float logprob = 0;
  std::int32_t n_top = 0;
  std::int32_t top_ids[kMaxLogprobs] = {};
  float top_logprobs[kMaxLogprobs] = {};
};

/// Sizes that fix every address and launch shape of a graph family.
struct InputShape {
  int max_tokens = 0;       ///< Largest bucket Cmax; `capacity` below is <= this.
  int max_rows = 0;         ///< Bmax; S = Bmax + 1 slots.
  int table_width = 0;      ///< W
  int n_groups = 1;         ///< Block tables.
  int position_factor = 0;  ///< P
  int block_size = 64;
  int max_seqs = 0;     ///< Rows of history.
  int max_seq_len = 0;  ///< Columns of history.
  constexpr int n_slots() const { return max_rows + 1; }
  constexpr int found_width() const { return (max_seq_len + 3) / 4 * 4; }  ///< Columns of History::found.
};

/// Token ids of the sequences that run, a row each; they outlive a step, and all families share them.
struct History {
  std::int32_t* ids = nullptr;   // [max_seqs, max_seq_len] device memory; each step adds its tokens
  std::int32_t* lens = nullptr;  // [max_seqs] device memory
  /// [max_seqs, found_width] host memory that the device reads: beginnings that no step has run, as a prefix hit skips
  /// them. Staged for the step that takes them into `ids`; rows begin at multiples of 16 bytes.
  std::int32_t* found = nullptr;
};

/// The staged half of A.2, one contiguous piece of memory with this layout on host (twice) and device (once).
/// Offsets in bytes from the start; ids last, so that a bucket fetches only its own part.
struct StagingLayout {
  explicit StagingLayout(const InputShape& shape);
  std::int64_t n_tokens = 0, n_seqs = 0;               // int32 each
  std::int64_t input_lengths = 0, prefix_lengths = 0;  // int32 [S]
  std::int64_t sampling = 0;                           // SlotSampling [S]
  std::int64_t block_tables = 0;                       // int32 [n_groups][S][W]
  std::int64_t bias = 0, banned = 0;                   // BiasEntry [Bmax * kMaxLogitBias], int32 [Bmax * kMaxBannedIds]
  std::int64_t n_bias = 0, n_banned = 0;               // int32 each: entries in use
  std::int64_t position_ids = 0;                       // int32 [Cmax * P]
  std::int64_t input_ids = 0;                          // int32 [Cmax]
  std::int64_t bytes = 0;
};

/// A step seen as the last token of each sequence alone: slot s < R has one token, in row s. Derived where it is there.
struct LastTokens {
  std::int32_t* lengths = nullptr;      // [S] 1; 0 for slots >= R
  std::int32_t* prefixes = nullptr;     // [S] tokens before it; 0 for slots >= R
  std::int32_t* cu_seqlens = nullptr;   // [S + 1]
  std::int32_t* sample_rows = nullptr;  // [Bmax] s; -1 for slots >= R
};

/// The views a forward reads: staged fields, then those the first node derives (D4). All int32 device memory.
struct StepInputs {
  InputShape shape;
  int capacity = 0;          ///< C of this bucket
  bool skip_padding = true;  ///< D7: kernels may leave rows >= *n_tokens alone.
  bool is_last_rows = false;

  const std::int32_t* n_tokens = nullptr;        // [1] T
  const std::int32_t* n_seqs = nullptr;          // [1] R
  const std::int32_t* input_ids = nullptr;       // [C]
  const std::int32_t* input_lengths = nullptr;   // [S]
  const std::int32_t* prefix_lengths = nullptr;  // [S]
  const std::int32_t* block_tables = nullptr;    // [n_groups, S, W]
  const std::int32_t* position_ids = nullptr;    // [C * P], null if P = 0
  const SlotSampling* sampling = nullptr;        // [S]
  const BiasEntry* bias = nullptr;
  const std::int32_t* banned = nullptr;

  std::int32_t* cu_seqlens = nullptr;      // [S + 1]
  std::int32_t* cu_kv_seqlens = nullptr;   // [S + 1]
  std::int32_t* kv_lens = nullptr;         // [S]
  std::int32_t* padding_offset = nullptr;  // [C]
  std::int32_t* positions = nullptr;       // [C]
  std::int32_t* kv_locs = nullptr;         // [n_groups, C]
  std::int32_t* sample_rows = nullptr;     // [Bmax]; -1 for slots >= R
  LastTokens last;

  History history;  // `ids` and `lens` updated in place

  /// Whether last_rows() is there: the end of the last layer is to run on it alone.
  constexpr bool has_last_rows() const { return last.lengths != nullptr; }
  /// This step after its rows were taken (Ops::take_rows): Bmax rows, of which R are real and the others never
  /// computed. What only the tokens' own inputs, K and V need is null.
  StepInputs last_rows() const;

  constexpr const std::int32_t* table(int group) const {
    return block_tables + static_cast<std::int64_t>(group) * shape.n_slots() * shape.table_width;
  }
  constexpr std::int32_t* history_of(int row) const {
    return history.ids + static_cast<std::int64_t>(row) * shape.max_seq_len;
  }
  constexpr const std::int32_t* found_of(int row) const {
    return history.found + static_cast<std::int64_t>(row) * shape.found_width();
  }
};

}  // namespace monograph
