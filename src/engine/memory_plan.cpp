#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdio>

#include "graph/ladder.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr int kDefaultMaxSeqLen = 8192;
constexpr int kDefaultChunkSize = 2048;
constexpr int kDefaultMaxRows = 64;

void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most, const char* reason = "") {
  if (value < least || value > most)
    throw Error(ErrorCode::kInvalidArgument,
                std::string(reason) + "--" + flag + " " + std::to_string(value) + ": expected " +
                    std::to_string(least) + ".." + std::to_string(most),
                flag);
}

int blocks_for(int n_tokens, int block_size) { return (n_tokens + block_size - 1) / block_size; }

void resolve_lengths(ResolvedConfig& to, const EngineConfig& config, const ModelConfig& model) {
  if (config.max_seq_len) check_range("max-seq-len", *config.max_seq_len, 2, model.max_position);
  to.max_seq_len = config.max_seq_len.value_or(std::min(model.max_position, kDefaultMaxSeqLen));
  check_range("max-seqs", config.max_seqs, 1, kMaxGraphRows);
  check_range("max-queue", config.max_queue, 1, 1'000'000);
  check_range("block-size", config.block_size, 1, 1024);
  to.max_seqs = config.max_seqs;
  to.max_queue = config.max_queue;
  to.block_size = config.block_size;
}

void resolve_switches(ResolvedConfig& to, const EngineConfig& config) {
  if (config.enable_prefill_cuda_graph.value_or(false) && !config.enable_cuda_graph.value_or(true))
    throw Error(ErrorCode::kInvalidArgument,
                "--enable-prefill-cuda-graph is on, but it needs --enable-cuda-graph, which is explicitly off",
                "enable-prefill-cuda-graph");
  to.graphs = config.enable_cuda_graph.value_or(true);
  to.prefill_graphs = to.graphs && config.enable_prefill_cuda_graph.value_or(true);
}

/// The chunk size and the extend ladder bound each other: a chunk that no bucket holds could not replay.
void resolve_prefill(ResolvedConfig& to, const EngineConfig& config) {
  if (config.chunk_size) check_range("chunk-size", *config.chunk_size, 1, 1 << 20);
  to.chunk_size = std::min(config.chunk_size.value_or(kDefaultChunkSize), std::min(to.max_seq_len, kMaxBucket));
  if (config.chunk_size && to.chunk_size < *config.chunk_size)
    to.warnings.push_back("--chunk-size " + std::to_string(*config.chunk_size) + " is lowered to " +
                          std::to_string(to.chunk_size) + ", the longest sequence");
  const int default_rows = std::min(kDefaultMaxRows, to.max_seqs);
  to.max_rows = config.prefill_cuda_graph_max_requests.value_or(default_rows);
  check_range("prefill-cuda-graph-max-requests", to.max_rows, 1, kMaxGraphRows, "invalid_max_requests: ");
  if (!to.prefill_graphs) return;
  if (config.prefill_capture_buckets.empty()) {
    to.prefill_buckets = default_ladder(to.chunk_size, to.max_seq_len);
    return;
  }
  to.prefill_buckets = check_ladder(config.prefill_capture_buckets, std::min(to.max_seq_len, kMaxBucket),
                                    "--prefill-cuda-graph-capture-config");
  const int largest = to.prefill_buckets.back();
  if (!config.chunk_size) to.chunk_size = largest;
  if (to.chunk_size > largest) {
    to.warnings.push_back("--chunk-size " + std::to_string(to.chunk_size) + " is lowered to " +
                          std::to_string(largest) + ", the largest bucket of --prefill-cuda-graph-capture-config");
    to.chunk_size = largest;
  }
  const auto reachable = pick_bucket(to.prefill_buckets, to.chunk_size);
  for (int bucket : to.prefill_buckets)
    if (bucket > *reachable && config.enable_chunked_prefill)
      to.warnings.push_back("bucket " + std::to_string(bucket) +
                            " is captured but cannot be reached: --chunk-size is " + std::to_string(to.chunk_size));
}

void resolve_decode(ResolvedConfig& to, const EngineConfig& config) {
  if (!to.graphs) return;
  if (config.decode_capture_buckets.empty()) {
    to.decode_buckets = default_decode_ladder(to.max_seqs);
    return;
  }
  to.decode_buckets = check_ladder(config.decode_capture_buckets, to.max_seqs, "--decode-cuda-graph-capture-config");
  if (to.decode_buckets.back() == to.max_seqs) return;
  to.warnings.push_back("--decode-cuda-graph-capture-config ends at " + std::to_string(to.decode_buckets.back()) +
                        "; " + std::to_string(to.max_seqs) + " (--max-seqs) is added");
  to.decode_buckets.push_back(to.max_seqs);
}

/// The sentinel of any bucket must fit into scratch, and scratch into a row of the block table.
int scratch_blocks(const ResolvedConfig& config) {
  int largest = 0;
  for (const auto* ladder : {&config.prefill_buckets, &config.decode_buckets})
    if (!ladder->empty()) largest = std::max(largest, ladder->back());
  return blocks_for(std::min(largest, config.max_seq_len), config.block_size);
}

std::string base_name(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name.substr(name.find_last_of('/') + 1);
}

}  // namespace

ResolvedConfig resolve_config(const EngineConfig& config, const ModelConfig& model) {
  ResolvedConfig resolved;
  resolved.model_name = config.served_model_name.empty() ? base_name(config.model) : config.served_model_name;
  resolved.chunked_prefill = config.enable_chunked_prefill;
  resolved.prefix_cache = config.enable_prefix_cache;
  resolve_lengths(resolved, config, model);
  resolve_switches(resolved, config);
  resolve_prefill(resolved, config);
  resolve_decode(resolved, config);
  resolved.n_scratch_blocks = scratch_blocks(resolved);
  return resolved;
}

std::int64_t least_blocks(const ResolvedConfig& resolved) {
  return blocks_for(resolved.max_seq_len, resolved.block_size) + 1 + resolved.n_scratch_blocks;
}

KvPlan plan_kv(const EngineConfig& config, const ResolvedConfig& resolved, const KvCacheShape& shape,
               std::int64_t limit_bytes, const std::string& limit) {
  const std::int64_t block_bytes = shape.bytes_per_block();
  const std::int64_t per_sequence = blocks_for(resolved.max_seq_len, resolved.block_size);
  const std::int64_t overhead = 1 + resolved.n_scratch_blocks;
  const std::int64_t least = least_blocks(resolved), most = per_sequence * resolved.max_seqs + overhead;
  const auto too_small = [&](ErrorCode code, const std::string& given, const std::string& change, const char* field) {
    return Error(code,
                 given + ": one sequence of --max-seq-len " + std::to_string(resolved.max_seq_len) + " and " +
                     std::to_string(overhead) + " reserved blocks need " + std::to_string(least * block_bytes) +
                     " bytes of KV cache; " + change,
                 field);
  };
  KvPlan plan;
  if (config.kv_cache_bytes) {
    const std::int64_t n = *config.kv_cache_bytes / block_bytes;
    if (n < least)
      throw too_small(ErrorCode::kInvalidArgument, "--kv-cache-bytes " + std::to_string(*config.kv_cache_bytes),
                      "raise --kv-cache-bytes or lower --max-seq-len", "kv-cache-bytes");
    plan.n_blocks = static_cast<int>(std::min<std::int64_t>(n, INT32_MAX / resolved.block_size));
  } else {
    const std::int64_t n = std::min(most, limit_bytes / block_bytes);
    if (n < least)
      throw too_small(ErrorCode::kOutOfMemory, std::to_string(limit_bytes) + " bytes (" + limit + ") are too little",
                      "lower --max-seq-len or set --kv-cache-bytes", "max-seq-len");
    plan.n_blocks = static_cast<int>(std::min<std::int64_t>(n, INT32_MAX / resolved.block_size));
  }
  plan.bytes = plan.n_blocks * block_bytes;
  return plan;
}

std::string human_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text,
                value < 10 && unit > 0    ? "%.2f %s"
                : value < 100 && unit > 0 ? "%.1f %s"
                                          : "%.0f %s",
                value, kUnits[unit]);
  return text;
}

}  // namespace monograph
