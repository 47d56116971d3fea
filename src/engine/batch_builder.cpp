#include "engine/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace monograph {
namespace {

void append_positions(std::vector<std::int32_t>& out, const Sequence& sequence, int first, int n, int factor) {
  const std::vector<std::int32_t>& given = sequence.position_ids;
  const int n_given = static_cast<int>(given.size()) / factor;
  const std::int32_t last = given.empty() ? -1 : *std::ranges::max_element(given);
  for (int i = first; i < first + n; ++i)
    for (int p = 0; p < factor; ++p)
      out.push_back(i < n_given ? given[static_cast<std::size_t>(i) * factor + p] : last + 1 + (i - n_given));
}

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
