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

/// Whether the row has a table per tag, every id in it is a block, and every table covers the row's tokens.
std::string malformed_tables(const GraphLimits& limits, const Batch& batch, const BatchRow& row) {
  if (row.block_tables.size() != batch.group_tags.size())
    return numbers("block tables", static_cast<std::int64_t>(row.block_tables.size()), "expected",
                   static_cast<std::int64_t>(batch.group_tags.size()));
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

std::string malformed_row(const GraphLimits& limits, const Batch& batch, const BatchRow& row) {
  if (row.n_tokens < 1) return numbers("row length", row.n_tokens, "at least", 1);
  if (row.prefix < 0) return numbers("prefix", row.prefix, "at least", 0);
  return malformed_tables(limits, batch, row);
}

std::string malformed_positions(const GraphLimits& limits, const Batch& batch) {
  if (limits.position_factor == 0) return {};  // ids are ignored
  const std::int64_t needed = static_cast<std::int64_t>(batch.n_tokens()) * limits.position_factor;
  const auto found = batch.position_ids ? static_cast<std::int64_t>(batch.position_ids->size()) : 0;
  if (found < needed) return numbers("position ids", found, "its tokens need", needed);
  if (found % limits.position_factor != 0)
    return numbers("position ids", found, "a multiple of", limits.position_factor);
  for (std::int32_t id : std::span(*batch.position_ids).first(static_cast<std::size_t>(needed)))
    if (id < 0 || id >= limits.max_seq_len) return numbers("position id", id, "max_seq_len", limits.max_seq_len);
  return {};
}

/// The tags, in the batch's order, for people.
std::string joined(std::span<const std::string> tags) {
  std::string text;
  for (const std::string& tag : tags) text.append(text.empty() ? "" : ",").append(tag);
  return text;
}

Eligibility no(PrefillStatus status, std::string detail) { return {status, 0, std::move(detail)}; }

/// Gates 8 to 10: what a row needs beyond tokens, where the backend must declare it.
Eligibility check_needs(const BackendCapabilities& can, const Batch& batch) {
  using enum PrefillStatus;
  for (const auto& row : batch.rows) {
    if (row.needs.publish_kv && !can.publish_kv)
      return no(kPdCacheStoreNotSupported, "a row publishes K and V, the backend lacks publish_kv");
    if (row.needs.features && !can.feature_rows)
      return no(kMultimodalInputNotSupported, "a row has features, the backend lacks feature_rows");
    if (row.needs.token_types && !can.token_types)
      return no(kTokenTypeInputNotSupported, "a row has token types, the backend lacks token_types");
  }
  return {};
}

}  // namespace

bool topology_supported(const Topology& t) {
  for (int size : {t.world_size, t.tensor_parallel, t.data_parallel, t.expert_parallel, t.pipeline_parallel,
                   t.ffn_tensor_parallel, t.ffn_sequence_parallel, t.sequence_parallel, t.context_parallel})
    if (size != 1) return false;
  return !t.ffn_disaggregation;
}

Eligibility check_deployment(const Deployment& d) {
  using enum PrefillStatus;
  if (!d.graphs || !d.prefill_graphs) return no(kNotRequested, "feature_disabled");
  if (!topology_supported(d.topology)) return no(kTopologyNotSupported, "a parallel size above 1, or an option");
  if (!d.dtype_declared) return no(kModelNotSupported, "the backend declares no graphs for the activation type");
  if (d.latent_attention) return no(kModelNotSupported, "latent attention");
  if (d.instance != InstanceKind::kTarget)
    return no(kModelNotSupported, "a " + std::string(to_string(d.instance)) + " instance");
  if (d.layer_micro_batches) return no(kModelNotSupported, "layer_micro_batch_enabled");
  if (!d.has_cache) return no(kScratchKvUnavailable, "no cache");
  for (const CacheGroup& group : d.groups)
    if (group.kind != CacheGroupKind::kFull)
      return no(kModelNotSupported, "unsupported_cache_topology: group " + group.tag + " may hold null blocks");
  if (d.ladder.empty()) return no(kCaptureUnavailable, "the ladder is empty");
  if (d.n_scratch.size() != d.groups.size())
    return no(kScratchKvUnavailable,
              numbers("groups with scratch blocks", static_cast<std::int64_t>(d.n_scratch.size()), "expected",
                      static_cast<std::int64_t>(d.groups.size())));
  for (int n : d.n_scratch)
    if (n < d.n_scratch_needed)
      return no(kScratchKvUnavailable, numbers("scratch blocks", n, "the largest bucket needs", d.n_scratch_needed));
  return {};
}

std::string malformed(const GraphLimits& limits, const Batch& batch) {
  if (batch.rows.empty()) return "a batch without rows";
  if (!match_tags(limits.groups, batch.group_tags)) return "tables of groups " + joined(batch.group_tags);
  for (const auto& row : batch.rows)
    if (std::string what = malformed_row(limits, batch, row); !what.empty()) return what;
  if (total_tokens(batch) != batch.n_tokens())
    return numbers("token ids", batch.n_tokens(), "row lengths add up to", total_tokens(batch));
  for (const auto& row : batch.rows)
    if (row.prefix + static_cast<std::int64_t>(row.n_tokens) > limits.max_seq_len)
      return numbers("sequence length", row.prefix + static_cast<std::int64_t>(row.n_tokens), "max_seq_len",
                     limits.max_seq_len);
  for (const auto& row : batch.rows)
    if (const RowNeeds& n = row.needs; n.publish_kv || n.features || n.token_types || n.adapter || n.prompt_logits)
      return "a row asks for more than tokens, which no forward of this build does";
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
  if (Eligibility found = check_needs(limits.capabilities, batch); !found.ok()) return found;
  if (!limits.scratch) return no(kScratchKvUnavailable, "no scratch blocks are reserved");
  for (const auto& row : batch.rows)
    if (std::string what = malformed_tables(limits, batch, row); !what.empty())
      return no(kInputMetadataInvalid, std::move(what));
  if (!match_tags(limits.groups, batch.group_tags))
    return no(kGraphInputShapeMismatch, "scratch_kv_group_mismatch: tables of groups " + joined(batch.group_tags));
  const auto bucket = pick_bucket(limits.ladder, batch.n_tokens());
  if (!bucket)
    return no(kInputTokensExceedCaptureLimit,
              numbers("tokens", batch.n_tokens(), "max bucket", limits.ladder.empty() ? 0 : limits.ladder.back()));
  if (std::string what = malformed_positions(limits, batch); !what.empty())
    return no(kGraphInputShapeMismatch, std::move(what));
  for (const auto& row : batch.rows)
    for (const auto& table : row.block_tables)
      if (static_cast<int>(table.size()) > limits.table_width)
        return no(kGraphInputShapeMismatch, numbers("block-table width", static_cast<std::int64_t>(table.size()),
                                                    "captured", limits.table_width));
  for (const auto& row : batch.rows) {
    if (row.needs.adapter) return no(kLoraNotSupported, "a row names an adapter");
    if (row.needs.prompt_logits) return no(kRequestNotSupported, "a row wants the logits of its whole prompt");
  }
  return {kReplayed, *bucket, {}};
}

}  // namespace monograph
