// What a start-up takes of a device's own memory, told from shapes before anything is allocated; and what to change
// when that is more than there is.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "cache/kv_cache.h"
#include "engine/memory_plan.h"
#include "ops/ops.h"

namespace monograph {

/// Bytes of device memory by what holds them.
struct MemoryBudget {
  std::int64_t outside = 0;  ///< The driver's and other programs': in use before the model came.
  std::int64_t weights = 0;
  std::int64_t activations = 0;  ///< Activations, logits, staging and the kernels' workspace.
  std::int64_t graphs = 0;
  std::int64_t scratch = 0;  ///< Null block and the sentinels' blocks.
  std::int64_t kv = 0;       ///< Blocks that sequences can have.
  std::int64_t total() const { return outside + weights + activations + graphs + scratch + kv; }
};

/// What memory follows from besides the settings.
struct MemoryShape {
  const ModelConfig& model;
  KvCacheShape kv;
  std::function<std::int64_t(const WorkspaceShape&)> workspace_bytes;  ///< Ops::workspace_bytes of the device.
};

/// Everything but `outside` and `kv`. Weights in the dtype of the cache; sizes of graphs from their number of nodes.
MemoryBudget estimate_budget(const ResolvedConfig& resolved, const MemoryShape& shape);

/// Most bytes that may be in use on the device, others' included: --memory-fraction, less what the driver needs to
/// work.
std::int64_t memory_limit(const EngineConfig& config, const DeviceMemory& memory);

/// Throws Error(kOutOfMemory) if the budget of `config` with the KV blocks of one sequence passes the limit. One line:
/// what is needed, what there is, and options with which it would start. `more` is what measuring found above the
/// estimate.
void check_room(const EngineConfig& config, const MemoryShape& shape, const DeviceMemory& memory,
                std::int64_t more = 0);

/// "weights 16.4 GB, activations, logits and staging 1.03 GB, graphs ..., scratch ..., KV pool ..."; `graph_counts` may
/// be "(20 extend, 8 decode)".
std::string to_text(const MemoryBudget& budget, const std::string& graph_counts, const std::string& pool);

}  // namespace monograph
