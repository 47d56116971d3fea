// May this step be replayed, and if not, why. Pure host code without side effects: the same predicate answers when a
// step is planned and again before it runs. (SPEC C.3, C.4)
#pragma once
#include <span>
#include <string>

#include "comm/topology.h"
#include "graph/batch.h"
#include "graph/cache_groups.h"
#include "graph/role.h"
#include "monograph/status.h"
#include "ops/attention.h"

namespace monograph {

/// Whether graphs serve this deployment at all; today every size must be 1 and every option off (S-16).
bool topology_supported(const Topology& topology);

struct Eligibility {
  PrefillStatus status = PrefillStatus::kReplayed;  ///< kReplayed: a graph fits.
  int bucket = 0;
  std::string detail;                   ///< For the log, with the numbers.
  GraphRole role = GraphRole::kExtend;  ///< Whose graph.
  bool ok() const { return status == PrefillStatus::kReplayed; }
};

/// What is known before anything is captured.
struct Deployment {
  bool graphs = true, prefill_graphs = true;  ///< The master and the feature.
  Topology topology;
  bool dtype_declared = true;     ///< The backend declares graphs for the activation type.
  bool latent_attention = false;  ///< MLA, whose fast path reads a device value on the host.
  InstanceKind instance = InstanceKind::kTarget;
  bool layer_micro_batches = false;
  bool has_cache = true;
  std::vector<CacheGroup> groups{CacheGroup{}};
  std::span<const int> ladder;
  /// Scratch blocks of each group, in the groups' order, and what the largest bucket needs.
  std::vector<int> n_scratch;
  int n_scratch_needed = 0;
};

/// Static gates of C.3, in order, but for attention, which the model plans (Model::plan_attention).
Eligibility check_deployment(const Deployment& deployment);

/// What the captured graphs can take.
struct GraphLimits {
  std::span<const int> ladder;  ///< Captured buckets, sorted; empty: none.
  int max_rows = 0;             ///< Bmax
  int max_seq_len = 0;
  int block_size = 64;
  int table_width = 0;  ///< W
  std::vector<CacheGroup> groups{CacheGroup{}};
  int n_blocks = 0;         ///< Ids in block tables are 1..n_blocks-1.
  int position_factor = 0;  ///< P
  bool scratch = false;     ///< Scratch blocks are reserved.
  BackendCapabilities capabilities;
};

/// Gates of C.4, in order; the first that fails gives the status.
Eligibility check_batch(const GraphLimits& limits, const Batch& batch);

/// Whether the forward can run at all, graph or eager: rows, ids, tables and positions make sense, and nothing is asked
/// for that no forward of this build does. Empty: yes; else what is wrong.
std::string malformed(const GraphLimits& limits, const Batch& batch);

}  // namespace monograph
