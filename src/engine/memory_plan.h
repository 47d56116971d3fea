// EngineConfig + model + machine → what the engine really does: limits, ladders, blocks of the KV pool. Checked once,
// read-only afterwards.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "model/config.h"
#include "monograph/config.h"

namespace monograph {

struct ResolvedConfig {
  std::string model_name;
  int max_seq_len = 0, max_seqs = 0, max_queue = 0;
  int chunk_size = 0;
  bool chunked_prefill = true, prefix_cache = true;
  int block_size = 64;

  bool graphs = true, prefill_graphs = true;
  int max_rows = 0;  ///< Bmax
  std::vector<int> prefill_buckets, decode_buckets;
  int n_scratch_blocks = 0;  ///< 0 without graphs.

  std::vector<std::string> warnings;  ///< What was changed, one line each, for the log.
};

/// Limits and ladders (SPEC A.7, D9). Throws Error(kInvalidArgument) naming the flag, its value and the limit.
ResolvedConfig resolve_config(const EngineConfig& config, const ModelConfig& model);

/// Fewest blocks to serve with: one sequence of max_seq_len, scratch and the null block.
std::int64_t least_blocks(const ResolvedConfig& resolved);

struct KvPlan {
  int n_blocks = 0;  ///< Null block and scratch included.
  std::int64_t bytes = 0;
};

/// Size of the KV pool: --kv-cache-bytes, else what max_seqs sequences of max_seq_len can use, but at most
/// `limit_bytes`
/// (`limit` says in words what that is). At least one sequence of max_seq_len fits, else Error(kInvalidArgument or
/// kOutOfMemory) says in one line which number to change.
KvPlan plan_kv(const EngineConfig& config, const ResolvedConfig& resolved, const KvCacheShape& shape,
               std::int64_t limit_bytes, const std::string& limit);

/// "1.25 GB"; powers of 1000, three digits.
std::string human_bytes(std::int64_t bytes);

}  // namespace monograph
