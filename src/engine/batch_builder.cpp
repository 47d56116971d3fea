#include "engine/batch_builder.h"

#include <span>

#include "base/check.h"
#include "engine/positions.h"

namespace monograph {
namespace {

BatchRow build_row(const PlannedRow& planned) {
  const Sequence& sequence = *planned.sequence;
  BatchRow row;
  row.n_tokens = planned.n_tokens;
  row.prefix = sequence.n_computed;
  row.prefill = planned.prefill;
  row.block_tables = {sequence.blocks};
  row.sampling = sequence.sampling;
  row.sampling.samples = planned.samples ? 1 : 0;
  row.sampling.history_row = sequence.history_row;
  row.sampling.prompt_len = sequence.prompt_len;
  if (sequence.history_is_short) row.found = std::span(sequence.tokens).first(static_cast<std::size_t>(row.prefix));
  if (!planned.samples) return row;
  row.bias = sequence.bias;
  if (sequence.n_output() < sequence.min_tokens) row.banned = sequence.end_ids;
  return row;
}

}  // namespace

Batch build_batch(const StepPlan& step, int position_factor) {
  Batch batch;
  if (position_factor > 0) batch.position_ids.emplace();
  for (const PlannedRow& planned : step.rows) {
    const Sequence& sequence = *planned.sequence;
    CHECK(planned.n_tokens >= 1 && planned.n_tokens <= sequence.n_remaining());
    const auto first = sequence.tokens.begin() + sequence.n_computed;
    batch.input_ids.insert(batch.input_ids.end(), first, first + planned.n_tokens);
    if (position_factor > 0)
      append_positions(*batch.position_ids, sequence, sequence.n_computed, planned.n_tokens, position_factor);
    batch.rows.push_back(build_row(planned));
  }
  return batch;
}

}  // namespace monograph
