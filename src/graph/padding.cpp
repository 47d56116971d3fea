#include "graph/padding.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace monograph {
namespace {

bool fits(std::span<const std::int32_t> lengths, std::span<const std::int32_t> prefixes, int capacity, int max_rows,
          const PaddedLayout& out) {
  const std::size_t slots = static_cast<std::size_t>(max_rows) + 1;
  const auto c = static_cast<std::size_t>(capacity);
  const std::size_t n = lengths.size();
  if (n == 0 || max_rows < 1 || n > static_cast<std::size_t>(max_rows) || prefixes.size() != n || capacity < 1)
    return false;
  if (out.input_lengths.size() < slots || out.prefix_lengths.size() < slots || out.kv_lens.size() < slots) return false;
  if (out.cu_seqlens.size() < slots + 1 || out.cu_kv_seqlens.size() < slots + 1) return false;
  if (out.padding_offset.size() < c || out.positions.size() < c || out.sample_rows.size() < slots - 1) return false;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (lengths[i] <= 0 || prefixes[i] < 0) return false;
    total += lengths[i];
  }
  return total <= capacity;
}

}  // namespace

bool build_padded_layout(std::span<const std::int32_t> lengths, std::span<const std::int32_t> prefixes, int capacity,
                         int max_rows, const PaddedLayout& out) {
  if (!fits(lengths, prefixes, capacity, max_rows, out)) return false;
  const int n_rows = static_cast<int>(lengths.size());
  std::int32_t tokens = 0, keys = 0;
  out.cu_seqlens[0] = out.cu_kv_seqlens[0] = 0;
  for (int slot = 0; slot <= max_rows; ++slot) {
    const bool real = slot < n_rows;
    const std::int32_t length = real ? lengths[slot] : slot == max_rows ? capacity - tokens : 0;
    const std::int32_t prefix = real ? prefixes[slot] : 0;
    for (std::int32_t i = 0; i < length; ++i) {
      out.padding_offset[tokens + i] = slot * capacity - tokens;
      out.positions[tokens + i] = prefix + i;
    }
    tokens += length;
    keys += length + prefix;
    out.input_lengths[slot] = length;
    out.prefix_lengths[slot] = prefix;
    out.kv_lens[slot] = length + prefix;
    out.cu_seqlens[slot + 1] = tokens;
    out.cu_kv_seqlens[slot + 1] = keys;
    if (slot < max_rows) out.sample_rows[slot] = real ? tokens - 1 : -1;
  }
  return true;
}

void build_kv_locs(const PaddedLayout& layout, std::span<const std::int32_t> table, int width, int block_size,
                   std::span<std::int32_t> kv_locs) {
  const auto n_slots = layout.input_lengths.size();
  CHECK(table.size() >= n_slots * static_cast<std::size_t>(width));
  for (std::size_t slot = 0; slot < n_slots; ++slot) {
    for (std::int32_t t = layout.cu_seqlens[slot]; t < layout.cu_seqlens[slot + 1]; ++t) {
      const std::int32_t position = layout.positions[t];
      CHECK(position / block_size < width);
      kv_locs[t] = table[slot * width + position / block_size] * block_size + position % block_size;
    }
  }
}

}  // namespace monograph
