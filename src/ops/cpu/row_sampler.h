// Samples one row of logits by the rule of ops/sampling.h.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/inputs.h"

namespace monograph::cpu {

/// What the rule reads besides the logits.
struct RowContext {
  SlotSampling settings;
  std::span<const BiasEntry> bias;
  std::span<const std::int32_t> banned;
  std::span<const std::int32_t> history;  ///< Prompt and output, this step's tokens included.
  std::int32_t kv_len = 0;                ///< Position of the token to be sampled.
};

/// Holds scratch between rows; results do not depend on it. One thread at a time.
class RowSampler {
 public:
  SampledRow sample(std::span<const float> logits, const RowContext& row, const Kernels& kernels);

 private:
  struct Candidate {
    std::uint64_t key;  // sampling::rank_key
    float p;
  };
  void apply_bias(const RowContext& row);
  void apply_penalties(const RowContext& row);
  std::int32_t choose(const RowContext& row, const Kernels& kernels);
  void keep_top_k(int k);
  void keep_top_p(float top_p);
  void keep_from(std::uint64_t least_key);
  void add_logprobs(SampledRow& out, std::span<const float> logits, int n_top, const Kernels& kernels);

  std::vector<float> z_, p_;
  std::vector<Candidate> kept_, order_;
  std::vector<std::int32_t> n_seen_, n_output_;  // per id, zero between rows
};

}  // namespace monograph::cpu
