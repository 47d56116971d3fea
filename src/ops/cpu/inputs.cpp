// The first two nodes of a forward: fetch the staged set, derive the rest. (SPEC A.2; the oracle is graph/padding)
#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_ops.h"

namespace monograph::cpu {
namespace {

void copy(std::byte* to, const std::byte* from, std::int64_t at, std::int64_t n, std::int64_t size) {
  std::memcpy(to + at, from + at, static_cast<std::size_t>(n * size));
}

void fetch(std::byte* to, const std::byte* from, const StagingLayout& at, const InputShape& shape, int capacity) {
  const std::int64_t slots = shape.n_slots();
  for (std::int64_t one : {at.n_tokens, at.n_seqs, at.n_bias, at.n_banned}) copy(to, from, one, 1, 4);
  copy(to, from, at.input_lengths, slots, 4);
  copy(to, from, at.prefix_lengths, slots, 4);
  copy(to, from, at.sampling, slots, sizeof(SlotSampling));
  copy(to, from, at.block_tables, shape.n_groups * slots * shape.table_width, 4);
  std::int32_t n_bias, n_banned;
  std::memcpy(&n_bias, to + at.n_bias, 4);
  std::memcpy(&n_banned, to + at.n_banned, 4);
  copy(to, from, at.bias, n_bias, sizeof(BiasEntry));
  copy(to, from, at.banned, n_banned, 4);
  copy(to, from, at.position_ids, std::int64_t{capacity} * shape.position_factor, 4);
  copy(to, from, at.input_ids, capacity, 4);
}

void derive_slots(const StepInputs& in) {
  const int n_rows = *in.n_seqs;
  in.cu_seqlens[0] = in.cu_kv_seqlens[0] = 0;
  for (int s = 0; s < in.shape.n_slots(); ++s) {
    in.kv_lens[s] = in.input_lengths[s] + in.prefix_lengths[s];
    in.cu_seqlens[s + 1] = in.cu_seqlens[s] + in.input_lengths[s];
    in.cu_kv_seqlens[s + 1] = in.cu_kv_seqlens[s] + in.kv_lens[s];
    if (s < in.shape.max_rows) in.sample_rows[s] = s < n_rows ? in.cu_seqlens[s + 1] - 1 : -1;
  }
}

void derive_last(const StepInputs& in) {
  const int n_rows = *in.n_seqs;
  in.last.cu_seqlens[0] = 0;
  for (int s = 0; s < in.shape.n_slots(); ++s) {
    const bool real = s < n_rows;
    in.last.lengths[s] = real ? 1 : 0;
    in.last.prefixes[s] = real ? std::max(in.kv_lens[s] - 1, 0) : 0;
    in.last.cu_seqlens[s + 1] = std::min(s + 1, n_rows);
    if (s < in.shape.max_rows) in.last.sample_rows[s] = real ? s : -1;
  }
}

void derive_tokens(const StepInputs& in) {
  const int size = in.shape.block_size;
  for (int s = 0; s < in.shape.n_slots(); ++s) {
    for (int t = in.cu_seqlens[s]; t < in.cu_seqlens[s + 1]; ++t) {
      const int position = t - in.cu_seqlens[s] + in.prefix_lengths[s];
      in.padding_offset[t] = s * in.capacity - in.cu_seqlens[s];
      in.positions[t] = position;
      for (int g = 0; g < in.shape.n_groups; ++g) {
        const std::int32_t* table = in.table(g) + static_cast<std::int64_t>(s) * in.shape.table_width;
        in.kv_locs[static_cast<std::int64_t>(g) * in.capacity + t] = table[position / size] * size + position % size;
      }
    }
  }
}

void append_history(const StepInputs& in) {
  for (int s = 0; s < *in.n_seqs; ++s) {
    const int row = in.sampling[s].history_row;
    if (row < 0 || row >= in.shape.max_seqs || in.kv_lens[s] > in.shape.max_seq_len) continue;
    std::copy_n(in.found_of(row), in.sampling[s].n_found, in.history_of(row));
    std::copy_n(in.input_ids + in.cu_seqlens[s], in.input_lengths[s], in.history_of(row) + in.prefix_lengths[s]);
    in.history.lens[row] = in.kv_lens[s];
  }
}

}  // namespace

void CpuOps::fetch_inputs(void* to, const void* const from[2], const std::int32_t* selector,
                          const StagingLayout& layout, const InputShape& shape, int capacity) {
  const void* const areas[2] = {from[0], from[1]};
  device_.submit("fetch_inputs", [=, first = areas[0], second = areas[1]] {
    fetch(static_cast<std::byte*>(to), static_cast<const std::byte*>(*selector == 0 ? first : second), layout, shape,
          capacity);
  });
}

void CpuOps::derive_inputs(const StepInputs& in) {
  device_.submit("derive_inputs", [in] {
    derive_slots(in);
    if (in.has_last_rows()) derive_last(in);
    derive_tokens(in);
    append_history(in);
  });
}

}  // namespace monograph::cpu
