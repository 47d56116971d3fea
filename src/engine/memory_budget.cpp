#include "engine/memory_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "graph/arena.h"
#include "monograph/error.h"
#include "ops/inputs.h"

namespace monograph {
namespace {

// Of a captured kernel, and of a graph beside them: driver 580 on an H200, measured around instantiate and upload.
constexpr std::int64_t kBytesPerNode = 4 << 10, kNodesPerLayer = 8, kNodesPerForward = 7;
// What the driver takes when streams, page tables and kernels' local memory grow.
constexpr std::int64_t kDriverReserve = 192 << 20;
constexpr double kMostFraction = 0.98;

int largest_step(const ResolvedConfig& r) {
  int n = std::max(r.max_seqs, r.chunked_prefill ? r.chunk_size : r.max_seq_len);
  for (const auto* ladder : {&r.prefill_buckets, &r.decode_buckets})
    if (!ladder->empty()) n = std::max(n, ladder->back());
  return n;
}

std::int64_t weight_values(const ModelConfig& m) {
  return m.n_layers * m.layer_values() + (m.tied_head ? 1 : 2) * std::int64_t{m.vocab_size} * m.model_dim;
}

/// The device's part of one graph family's fixed buffers.
std::int64_t staging_bytes(const ResolvedConfig& r, const ModelConfig& m, int max_tokens, int max_rows) {
  InputShape shape;
  shape.max_tokens = max_tokens;
  shape.max_rows = max_rows;
  shape.table_width = (r.max_seq_len + r.block_size - 1) / r.block_size;
  shape.position_factor = m.position_factor;
  return StagingLayout(shape).bytes + 4 * (3LL * max_tokens + 8LL * max_rows);
}

std::int64_t activation_bytes(const ResolvedConfig& r, const MemoryShape& shape) {
  const ModelConfig& m = shape.model;
  const int tokens = largest_step(r), rows = std::max(r.max_seqs, r.max_rows);
  const WorkspaceShape workspace{tokens,    rows,         m.model_dim, m.ffn_dim,
                                 m.n_heads, m.n_kv_heads, m.head_dim,  m.vocab_size};
  std::int64_t bytes = Arena::bytes_for(shape.kv.dtype, m, tokens, rows) + shape.workspace_bytes(workspace);
  bytes += 4LL * r.max_seqs * (r.max_seq_len + 1);  // history and its lengths
  bytes += 4LL * r.max_seq_len * m.rope.rotary_dim;
  bytes += staging_bytes(r, m, tokens, rows);
  if (!r.prefill_buckets.empty()) bytes += staging_bytes(r, m, r.prefill_buckets.back(), r.max_rows);
  if (!r.decode_buckets.empty()) bytes += staging_bytes(r, m, r.decode_buckets.back(), r.max_seqs);
  return bytes;
}

/// Bytes with one sequence's KV blocks, or nothing if the configuration is not allowed.
std::optional<std::int64_t> least_bytes(const EngineConfig& config, const MemoryShape& shape) {
  try {
    const ResolvedConfig resolved = resolve_config(config, shape.model);
    const std::int64_t one = (resolved.max_seq_len + resolved.block_size - 1) / resolved.block_size;
    const std::int64_t pool = config.kv_cache_bytes.value_or(one * shape.kv.bytes_per_block());
    return estimate_budget(resolved, shape).total() + std::max(pool, one * shape.kv.bytes_per_block());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Options that need less, or nothing if none of them is enough. Halves what the user would miss least, turn by turn.
std::optional<std::string> smaller(EngineConfig config, const MemoryShape& shape, std::int64_t room) {
  const ResolvedConfig start = resolve_config(config, shape.model);
  int length = start.max_seq_len, chunk = start.chunk_size, seqs = start.max_seqs;
  const auto fits = [&] {
    config.max_seq_len = length;
    config.chunk_size = std::min(chunk, length);
    config.max_seqs = seqs;
    const auto bytes = least_bytes(config, shape);
    return bytes && *bytes <= room;
  };
  bool lowered = true;
  while (!fits() && lowered) {
    lowered = false;
    for (const auto& [value, least] : {std::pair{&length, 256}, {&chunk, 128}, {&seqs, 4}}) {
      if (*value / 2 < least) continue;
      *value /= 2;
      lowered = true;
      if (fits()) break;
    }
  }
  if (!fits()) return std::nullopt;
  std::string options;
  const auto name = [&](const char* flag, int value, int before) {
    if (value != before) options += std::string(options.empty() ? "" : " ") + flag + " " + std::to_string(value);
  };
  name("--max-seq-len", length, start.max_seq_len);
  name("--chunk-size", std::min(chunk, length), start.chunk_size);
  name("--max-seqs", seqs, start.max_seqs);
  return options;
}

std::string two_digits(double x) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

/// More of the memory if that is enough, else smaller options, else both.
std::string advice_for(const EngineConfig& config, const MemoryShape& shape, const DeviceMemory& memory,
                       std::int64_t outside, std::int64_t needed) {
  EngineConfig more = config;
  more.memory_fraction =
      std::ceil(100.0 * static_cast<double>(outside + needed) / static_cast<double>(memory.total)) / 100;
  const std::string fraction = "start with --memory-fraction ";
  if (more.memory_fraction <= kMostFraction && needed <= memory_limit(more, memory) - outside)
    return fraction + two_digits(more.memory_fraction);
  if (const auto options = smaller(config, shape, memory_limit(config, memory) - outside))
    return "start with " + *options;
  more.memory_fraction = kMostFraction;
  if (const auto options = smaller(more, shape, memory_limit(more, memory) - outside))
    return fraction + two_digits(kMostFraction) + " " + *options;
  return "there is no setting with which this model fits; free GPU memory or take a smaller model";
}

}  // namespace

MemoryBudget estimate_budget(const ResolvedConfig& resolved, const MemoryShape& shape) {
  const ModelConfig& model = shape.model;
  MemoryBudget budget;
  budget.weights = (shape.kv.dtype == DType::kF32 ? 4 : 2) * weight_values(model);
  budget.activations = activation_bytes(resolved, shape);
  const auto n_graphs = static_cast<std::int64_t>(resolved.prefill_buckets.size() + resolved.decode_buckets.size());
  budget.graphs = n_graphs * (kNodesPerLayer * model.n_layers + kNodesPerForward) * kBytesPerNode;
  budget.scratch = (1 + resolved.n_scratch_blocks) * shape.kv.bytes_per_block();
  return budget;
}

std::int64_t memory_limit(const EngineConfig& config, const DeviceMemory& memory) {
  const auto part = static_cast<std::int64_t>(config.memory_fraction * static_cast<double>(memory.total));
  return std::min(part, memory.total - kDriverReserve);
}

void check_room(const EngineConfig& config, const MemoryShape& shape, const DeviceMemory& memory, std::int64_t more) {
  const std::int64_t outside = memory.total - memory.free + more;
  const std::int64_t room = memory_limit(config, memory) - outside;
  const std::int64_t needed = least_bytes(config, shape).value();
  if (needed <= room) return;
  const std::string advice = advice_for(config, shape, memory, outside, needed);
  MemoryBudget least = estimate_budget(resolve_config(config, shape.model), shape);
  least.kv = needed - least.total();
  throw Error(ErrorCode::kOutOfMemory,
              "GPU memory: " + human_bytes(needed) + " are needed (" + to_text(least, "", "for one sequence") + "), " +
                  human_bytes(std::max<std::int64_t>(room, 0)) + " are left of --memory-fraction " +
                  two_digits(config.memory_fraction) + " of " + human_bytes(memory.total) + " with " +
                  human_bytes(outside) + " in use; " + advice,
              "memory-fraction");
}

std::string to_text(const MemoryBudget& budget, const std::string& graph_counts, const std::string& pool) {
  return "weights " + human_bytes(budget.weights) + ", activations, logits and staging " +
         human_bytes(budget.activations) + ", graphs " + human_bytes(budget.graphs) +
         (graph_counts.empty() ? "" : " " + graph_counts) + ", scratch " + human_bytes(budget.scratch) + ", KV pool " +
         human_bytes(budget.kv) + " (" + pool + ")";
}

}  // namespace monograph
