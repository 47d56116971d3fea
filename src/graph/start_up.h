// What a runner has before its first step: the eager family, and the graph families that could be captured, or why not.
#pragma once
#include <memory>
#include <vector>

#include "base/log.h"
#include "graph/family.h"
#include "graph/policy.h"
#include "graph/runner_config.h"

namespace monograph {

struct Families {
  std::unique_ptr<GraphFamily> eager, decode, extend;  ///< The last two: null where there are no graphs.
  /// Outcome of each: kReplayed stands for "ready".
  PrefillStatus decode_status = PrefillStatus::kCaptureUnavailable;
  PrefillStatus extend_status = PrefillStatus::kCaptureUnavailable;
  std::vector<CaptureRecord> captures;
  MeasuredPolicy policy;  ///< Times of the extend family's buckets, where they were wanted.
};

/// What all families of a runner share, and the runner keeps.
struct FamilyParts {
  const ForwardContext& context;
  const AttentionBackend& attention;                      ///< That eager runs.
  const std::vector<std::vector<std::int32_t>>& scratch;  ///< Per group.
  History history;                                        ///< Of all sequences.
  int max_tokens, max_rows;                               ///< Of an eager step.
};

/// Captures decode, then extend graphs. A family that a gate or a clean failure denies is missing, with its status and
/// a line in the log; under `strict` that is an Error(kUnsupported) (D6). A dirty capture or a device fault is thrown.
Families start_families(const RunnerConfig& config, const FamilyParts& parts, const Log& log);

}  // namespace monograph
