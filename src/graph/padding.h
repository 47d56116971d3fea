// Lengths, prefixes and tables of a batch + a bucket → the derived half of the replay layout (SPEC A.2), on the host.
// It is the oracle for the device's derive_inputs, what `monograph plan` prints, and pure.
#pragma once
#include <cstdint>
#include <span>

namespace monograph {

/// What the oracle fills. Capacities are those of the spans.
struct PaddedLayout {
  std::span<std::int32_t> input_lengths;   // S
  std::span<std::int32_t> prefix_lengths;  // S
  std::span<std::int32_t> kv_lens;         // S
  std::span<std::int32_t> cu_seqlens;      // S + 1
  std::span<std::int32_t> cu_kv_seqlens;   // S + 1
  std::span<std::int32_t> padding_offset;  // C
  std::span<std::int32_t> positions;       // C
  std::span<std::int32_t> sample_rows;     // Bmax; -1 for slots >= R
};

/// Lays out R sequences of `lengths` new tokens after `prefixes` cached ones in a bucket of `capacity` tokens and
/// `max_rows` + 1 slots: slots R..Bmax-1 empty, the sentinel (slot Bmax) owns the capacity - T padding tokens with
/// prefix 0. Returns false, and writes nothing, if R is 0 or above max_rows, a length is <= 0, a prefix < 0, T is 0 or
/// above the capacity, the spans disagree in length, or any output is shorter than needed.
bool build_padded_layout(std::span<const std::int32_t> lengths, std::span<const std::int32_t> prefixes, int capacity,
                         int max_rows, const PaddedLayout& out);

/// Place of each packed token in the cache: table[slot][position / block_size] * block_size + position % block_size.
/// `table` is [S, width] with the sentinel's scratch blocks in its last row; `kv_locs` holds C entries.
void build_kv_locs(const PaddedLayout& layout, std::span<const std::int32_t> table, int width, int block_size,
                   std::span<std::int32_t> kv_locs);

}  // namespace monograph
