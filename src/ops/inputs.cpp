#include "ops/inputs.h"

namespace monograph {

StagingLayout::StagingLayout(const InputShape& shape) {
  constexpr std::int64_t kAlign = 64;  // a cache line, and enough for any vector load
  std::int64_t next = 0;
  const auto take = [&](std::int64_t n, std::int64_t size) {
    const std::int64_t at = next;
    next = (next + n * size + kAlign - 1) / kAlign * kAlign;
    return at;
  };
  const std::int64_t slots = shape.n_slots(), rows = shape.max_rows, tokens = shape.max_tokens;
  n_tokens = take(1, 4);
  n_seqs = take(1, 4);
  n_bias = take(1, 4);
  n_banned = take(1, 4);
  input_lengths = take(slots, 4);
  prefix_lengths = take(slots, 4);
  sampling = take(slots, sizeof(SlotSampling));
  block_tables = take(shape.n_groups * slots * shape.table_width, 4);
  bias = take(rows * kMaxLogitBias, sizeof(BiasEntry));
  banned = take(rows * kMaxBannedIds, 4);
  position_ids = take(tokens * shape.position_factor, 4);
  input_ids = take(tokens, 4);
  bytes = next;
}

StepInputs StepInputs::last_rows() const {
  StepInputs rows = *this;
  rows.is_last_rows = true;
  rows.capacity = shape.max_rows;
  rows.skip_padding = true;  // there is none: slots >= R are empty, the sentinel too
  rows.n_tokens = n_seqs;
  rows.input_lengths = last.lengths;
  rows.prefix_lengths = last.prefixes;
  rows.cu_seqlens = last.cu_seqlens;
  rows.sample_rows = last.sample_rows;
  rows.last = {};
  rows.input_ids = rows.position_ids = nullptr;
  rows.cu_kv_seqlens = rows.padding_offset = rows.positions = rows.kv_locs = nullptr;
  return rows;
}

}  // namespace monograph
