// Attention, cut into units that share keys: some neighbouring tokens of one sequence, and the query heads of one kv
// head. How the work is cut changes no bit: a row's arithmetic is fixed by its own keys (ops.h).
#include <algorithm>

#include "base/check.h"
#include "monograph/error.h"
#include "ops/cpu/cpu_ops.h"

namespace monograph::cpu {

void CpuOps::attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) {
  CHECK(out.shape == q.shape && q.shape[2] == kv.head_dim && q.shape[1] % kv.n_kv_heads == 0);
  CHECK(q.dtype == activation_dtype_ && out.dtype == activation_dtype_ && kv.group < in.shape.n_groups);
  if (kv.block_size < 1 || kSplitKeys % kv.block_size != 0)
    throw Error(ErrorCode::kUnsupported, "block size " + std::to_string(kv.block_size) +
                                             ": the CPU backend needs a divisor of " + std::to_string(kSplitKeys));
  device_.submit("attend", [this, out, q, kv, scale, in] {
    constexpr int kRowsPerUnit = 48;
    const int group = q.shape[1] / kv.n_kv_heads;
    const int per_unit = std::max(1, kRowsPerUnit / group);
    units_.clear();
    const int n_slots = in.skip_padding ? *in.n_seqs : in.shape.n_slots();
    for (int slot = 0; slot < n_slots; ++slot)
      for (int first = 0; first < in.input_lengths[slot]; first += per_unit)
        for (int head = 0; head < kv.n_kv_heads; ++head)
          units_.push_back({slot, head, first, std::min(per_unit, in.input_lengths[slot] - first)});
    // The last tokens see the most keys, so they go first and the threads finish together.
    pool().parallel_for(static_cast<std::int64_t>(units_.size()), 1, [&](std::int64_t i, std::int64_t, int thread) {
      attend_unit(out, q, kv, scale, in, units_[units_.size() - 1 - i], scratch_[thread]);
    });
  });
}

void CpuOps::attend_unit(const Tensor<3>& out, const Tensor<3>& q, const KvLayer& kv, float scale, const StepInputs& in,
                         const AttentionUnit& unit, Scratch& scratch) {
  const int dim = kv.head_dim, group = q.shape[1] / kv.n_kv_heads, width = group * dim;
  const int first_token = in.cu_seqlens[unit.slot] + unit.first, column = unit.kv_head * width;
  AttentionTile tile;
  tile.kv = kv;
  tile.table = in.table(kv.group) + static_cast<std::int64_t>(unit.slot) * in.shape.table_width;
  tile.kv_head = unit.kv_head;
  tile.first_position = in.prefix_lengths[unit.slot] + unit.first;
  tile.n_tokens = unit.n_tokens;
  tile.n_heads = group;
  tile.scale = scale;
  tile.round_probabilities = activation_dtype_ == DType::kBF16;

  // The primitive works on float32; other activations go through scratch.
  const Tensor<2> q_rows{q.data, q.dtype, {q.shape[0], q.shape[1] * dim}};
  const Tensor<2> out_rows{out.data, out.dtype, q_rows.shape};
  const std::int64_t n = static_cast<std::int64_t>(unit.n_tokens) * width;
  float* queries = scratch.floats(Scratch::kQueries, n);
  float* result = scratch.floats(Scratch::kTile, n);
  for (int t = 0; t < unit.n_tokens; ++t) load(queries + t * width, q_rows, first_token + t, column, width);
  tile.q = queries;
  tile.out = result;
  kernels_.attend(tile, scratch);
  for (int t = 0; t < unit.n_tokens; ++t) store(out_rows, first_token + t, column, width, result + t * width);
}

}  // namespace monograph::cpu
