#include "graph/eligibility.h"

#include "graph/ladder.h"

namespace monograph {
namespace {

std::string numbers(const char* what, std::int64_t found, const char* expected, std::int64_t limit) {
  return std::string(what) + " " + std::to_string(found) + ", " + expected + " " + std::to_string(limit);
}

std::int64_t total_tokens(const Batch& batch) {
  std::int64_t total = 0;
  for (const auto& row : batch.rows) total += row.n_tokens;
  return total;
}

/// Whether every id of the row's tables is a block, and every table covers the row's tokens.
std::string malformed_tables(const GraphLimits& limits, const BatchRow& row) {
  if (static_cast<int>(row.block_tables.size()) != limits.n_groups)
    return numbers("block tables", static_cast<std::int64_t>(row.block_tables.size()), "expected", limits.n_groups);
  const std::int64_t needed =
      (static_cast<std::int64_t>(row.prefix) + row.n_tokens + limits.block_size - 1) / limits.block_size;
  for (const auto& table : row.block_tables) {
    if (static_cast<std::int64_t>(table.size()) < needed)
      return numbers("blocks in a table", static_cast<std::int64_t>(table.size()), "its tokens need", needed);
    for (std::int32_t block : table)
      if (block < 1 || block >= limits.n_blocks) return numbers("block id", block, "ids end at", limits.n_blocks - 1);
  }
  return {};
}

std::string malformed_row(const GraphLimits& limits, const BatchRow& row) {
  if (row.n_tokens < 1) return numbers("row length", row.n_tokens, "at least", 1);
  if (row.prefix < 0) return numbers("prefix", row.prefix, "at least", 0);
  return malformed_tables(limits, row);
}

std::string malformed_positions(const GraphLimits& limits, const Batch& batch) {
  if (limits.position_factor == 0) return {};  // ids are ignored
  const std::int64_t needed = static_cast<std::int64_t>(batch.n_tokens()) * limits.position_factor;
  if (!batch.position_ids) return numbers("position ids", 0, "expected", needed);
  if (static_cast<std::int64_t>(batch.position_ids->size()) != needed)
    return numbers("position ids", static_cast<std::int64_t>(batch.position_ids->size()), "expected", needed);
  for (std::int32_t id : *batch.position_ids)
    if (id < 0 || id >= limits.max_seq_len) return numbers("position id", id, "max_seq_len", limits.max_seq_len);
  return {};
}

Eligibility no(PrefillStatus status, std::string detail) { return {status, 0, std::move(detail)}; }

}  // namespace

bool topology_supported(const Topology& t) {
  for (int size : {t.world_size, t.tensor_parallel, t.data_parallel, t.expert_parallel, t.pipeline_parallel,
                   t.ffn_tensor_parallel, t.ffn_sequence_parallel, t.sequence_parallel, t.context_parallel})
    if (size != 1) return false;
  return !t.ffn_disaggregation;
}

std::string malformed(const GraphLimits& limits, const Batch& batch) {
  if (batch.rows.empty()) return "a batch without rows";
  for (const auto& row : batch.rows)
    if (std::string what = malformed_row(limits, row); !what.empty()) return what;
  if (total_tokens(batch) != batch.n_tokens())
    return numbers("token ids", batch.n_tokens(), "row lengths add up to", total_tokens(batch));
  for (const auto& row : batch.rows)
    if (row.prefix + static_cast<std::int64_t>(row.n_tokens) > limits.max_seq_len)
      return numbers("sequence length", row.prefix + static_cast<std::int64_t>(row.n_tokens), "max_seq_len",
                     limits.max_seq_len);
  return malformed_positions(limits, batch);
}

Eligibility check_batch(const GraphLimits& limits, const Batch& batch) {
  using enum PrefillStatus;
  bool has_decode = false;
  for (const auto& row : batch.rows) has_decode |= !row.prefill;
  if (!batch.has_prefill()) return no(kNotRequested, "no prefill work");
  if (has_decode && !limits.capabilities.mixed_rows)
    return no(kMixedPrefillDecodeNotSupported, "decode rows in the batch, the backend lacks mixed_rows");
  const auto n_rows = static_cast<std::int64_t>(batch.rows.size());
  if (n_rows > limits.max_rows)
    return no(kRequestCountExceedCaptureLimit, numbers("requests", n_rows, "at most", limits.max_rows));
  for (const auto& row : batch.rows) {
    if (row.n_tokens < 1) return no(kInputMetadataInvalid, numbers("row length", row.n_tokens, "at least", 1));
    if (row.prefix < 0) return no(kInputMetadataInvalid, numbers("prefix", row.prefix, "at least", 0));
    if (static_cast<std::int64_t>(row.prefix) + row.n_tokens > limits.max_seq_len)
      return no(kInputTokensExceedCaptureLimit,
                numbers("sequence length", static_cast<std::int64_t>(row.prefix) + row.n_tokens, "at most",
                        limits.max_seq_len));
  }
  if (total_tokens(batch) != batch.n_tokens())
    return no(kInputMetadataInvalid,
              numbers("token ids", batch.n_tokens(), "row lengths add up to", total_tokens(batch)));
  for (const auto& row : batch.rows)
    if (row.prefix > 0 && !limits.capabilities.paged_prefix)
      return no(kPrefixCacheNotSupported, numbers("prefix", row.prefix, "the backend lacks paged_prefix, expected", 0));
  if (!limits.scratch) return no(kScratchKvUnavailable, "no scratch blocks are reserved");
  for (const auto& row : batch.rows) {
    if (static_cast<int>(row.block_tables.size()) != limits.n_groups)
      return no(kGraphInputShapeMismatch, numbers("cache groups", static_cast<std::int64_t>(row.block_tables.size()),
                                                  "captured", limits.n_groups));
    if (std::string what = malformed_tables(limits, row); !what.empty())
      return no(kInputMetadataInvalid, std::move(what));
  }
  const auto bucket = pick_bucket(limits.ladder, batch.n_tokens());
  if (!bucket)
    return no(kInputTokensExceedCaptureLimit,
              numbers("tokens", batch.n_tokens(), "max bucket", limits.ladder.empty() ? 0 : limits.ladder.back()));
  if (n_rows > *bucket) return no(kRequestCountExceedCaptureLimit, numbers("requests", n_rows, "bucket", *bucket));
  if (std::string what = malformed_positions(limits, batch); !what.empty())
    return no(kGraphInputShapeMismatch, std::move(what));
  for (const auto& row : batch.rows)
    for (const auto& table : row.block_tables)
      if (static_cast<int>(table.size()) > limits.table_width)
        return no(kGraphInputShapeMismatch, numbers("block-table width", static_cast<std::int64_t>(table.size()),
                                                    "captured", limits.table_width));
  return {kReplayed, *bucket, {}};
}

}  // namespace monograph
