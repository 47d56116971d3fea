// run(Batch) → token ids and status: replay if a captured graph fits, else the same forward eager, in the same step.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "graph/batch.h"
#include "graph/cache_groups.h"
#include "graph/eligibility.h"
#include "graph/role.h"
#include "graph/runner_config.h"
#include "graph/staging.h"
#include "model/model.h"
#include "ops/backend.h"

namespace monograph {

/// Counters the engine exports; only the engine thread writes, so readers copy them through the engine.
struct RunnerStats {
  std::int64_t steps = 0, prefill_replays = 0, decode_replays = 0, decode_eager = 0;
  std::int64_t padding_tokens = 0;
  std::map<int, std::int64_t> bucket_hits;  ///< of replays with prefill work
  std::vector<std::int64_t> fallbacks;      ///< By PrefillStatus; every reason exists from the start.
  std::vector<std::int64_t> decode_misses;  ///< The same for decode steps; they add up to decode_eager.
};

class Runner {
 public:
  virtual ~Runner() = default;
  /// Throws Error for a failed step (its rows fail, the engine goes on; kDevice ends the process).
  virtual StepResult run(const Batch& batch) = 0;
  /// Outcome of start-up for the prefill family: kReplayed stands for "ready".
  virtual PrefillStatus init_status() const = 0;
  virtual const RunnerStats& stats() const = 0;
  virtual const std::vector<CaptureRecord>& captures() const = 0;
  /// Times of each prefill bucket, by which the measured policy chooses; empty if nothing was measured.
  virtual const std::map<int, BucketTimes>& bucket_times() const = 0;
  /// The logits of the last step, row-major [R, V], copied to the host; rows that sampled nothing are undefined.
  virtual std::vector<float> last_logits(int n_rows) = 0;
  /// Whether a step like this would be replayed, without any side effect (PREPARE of SPEC A.1).
  virtual Eligibility check(const Batch& batch) const = 0;
  /// Runs the batch eager whatever the graphs could do, in the exact shape of `capacity` tokens (0: the batch's own):
  /// the reference that tests and `bench` compare with.
  virtual StepResult run_eager(const Batch& batch, int capacity = 0) = 0;
  /// Ids in block tables end before `n_blocks` (until then: all that the views have). Captured graphs stay as they are.
  virtual void limit_blocks(int n_blocks) = 0;
  /// What a family's steps are staged in, for audits; null without that family.
  virtual const Staging* staging(GraphRole role) const = 0;
  /// Bytes of arena, logits, staging and history, for the memory budget.
  virtual std::int64_t fixed_bytes() const = 0;
};

/// `kv` are the layers' views; `scratch` the reserved blocks of every group, at least ceil(Cmax / block_size) each
/// (empty: no graphs, kScratchKvUnavailable; a tag that is missing, unknown, empty or twice: Error(kInvalidArgument)).
/// Model, backend, cache and scratch outlive the runner. Captures decode, then extend graphs. After
/// Error(kDirtyCapture) a graph may still refer to scratch and buffers: the process must end.
std::unique_ptr<Runner> make_runner(const RunnerConfig& config, const Model& model, Backend& backend,
                                    std::vector<KvLayer> kv, std::vector<GroupBlocks> scratch, const Log& log);

}  // namespace monograph
