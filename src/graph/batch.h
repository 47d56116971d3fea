// The sequences of one step, packed end to end. Plain host values.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monograph/sampling.h"
#include "monograph/status.h"
#include "ops/inputs.h"

namespace monograph {

/// What a row asks for beyond its tokens. Each needs a path in the graph and one in the forward; where there is none
/// the batch is refused, never run without it (SPEC C.4, F5).
struct RowNeeds {
  bool publish_kv = false;     ///< Its K and V go to a cache store layer by layer.
  bool features = false;       ///< Multimodal features, their places, or a text mask.
  bool token_types = false;    ///< Token-type ids.
  bool adapter = false;        ///< A LoRA adapter.
  bool prompt_logits = false;  ///< Logits of every prompt row.
};

/// One sequence's part of a step.
struct BatchRow {
  int n_tokens = 0;      ///< New tokens: 1 for a decode row, a chunk's length for prefill.
  int prefix = 0;        ///< Tokens already in the cache.
  bool prefill = false;  ///< Has prompt (or recomputed) tokens; a decode row does not.
  std::vector<std::vector<std::int32_t>>
      block_tables;       ///< Per tag of the batch, block ids that cover prefix + n_tokens.
  SlotSampling sampling;  ///< n_found and the bias/banned ranges are filled while staging.
  /// The first ids of the prefix, where the device's history row lacks them (no step has run them: a prefix hit); empty
  /// otherwise. Must stay until the step has run.
  std::span<const std::int32_t> found;
  std::vector<BiasEntry> bias;
  std::vector<std::int32_t> banned;
  RowNeeds needs;
};

struct Batch {
  std::vector<std::int32_t> input_ids;                    ///< T ids, rows in order.
  std::vector<BatchRow> rows;                             ///< R
  std::vector<std::string> group_tags{"full"};            ///< What the rows' tables stand for, in their order.
  std::optional<std::vector<std::int32_t>> position_ids;  ///< At least T*P, token-major, if P > 0.
  int n_tokens() const { return static_cast<int>(input_ids.size()); }
  bool has_prefill() const {
    for (const auto& row : rows)
      if (row.prefill) return true;
    return false;
  }
};

/// What a step gave.
struct StepResult {
  std::vector<SampledRow> rows;                         ///< R
  PrefillStatus status = PrefillStatus::kNotRequested;  ///< For rows with prefill work; decode steps: kNotRequested.
  bool replayed = false;                                ///< Served by a graph (extend or decode).
  int bucket = 0;                                       ///< C of the replay; 0 when eager.
  std::int64_t step = 0;                                ///< Counts up from 1 over the engine's life.
  double launch_us = 0;  ///< Host time from the call to everything queued: the gates, staging, launch.
  double device_us = 0;  ///< Device time of the queued work; only with RunnerConfig::time_steps.
};

}  // namespace monograph
