// A runner whose "K and V" are the token ids themselves, kept in blocks and read back through the block tables: the
// next token is a pure function of what a row finds there, so any mistake with blocks shows as a wrong token.
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "graph/runner.h"

namespace monograph {

struct FakeRunnerConfig {
  int n_blocks = 64;
  int block_size = 4;
  int max_rows = 8, max_seqs = 16, max_seq_len = 128;
  int chunk_size = 16;
  int vocab_size = 97;
};

/// What the fake model answers after `tokens`; sampled with `seed` if the temperature is above 0.
TokenId fake_next_token(std::span<const TokenId> tokens, const SlotSampling& sampling, std::span<const TokenId> banned,
                        int vocab_size);
/// The whole output of a request that runs alone: the oracle.
std::vector<TokenId> fake_output(std::vector<TokenId> prompt, const SlotSampling& sampling, int max_tokens,
                                 int min_tokens, const std::set<TokenId>& end_ids, int vocab_size);

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(const FakeRunnerConfig& config);

  StepResult run(const Batch& batch) override;
  PrefillStatus init_status() const override { return PrefillStatus::kReplayed; }
  const RunnerStats& stats() const override { return stats_; }
  const std::vector<CaptureRecord>& captures() const override { return captures_; }
  const std::map<int, BucketTimes>& bucket_times() const override { return bucket_times_; }
  const Staging* staging(GraphRole) const override { return nullptr; }
  std::vector<float> last_logits(int n_rows) override;
  Eligibility check(const Batch& batch) const override;
  StepResult run_eager(const Batch& batch, int capacity) override;
  void limit_blocks(int) override {}
  std::int64_t fixed_bytes() const override { return 0; }

  /// Called before each step with its number; may throw. What the step would have written is then garbage.
  std::function<void(std::int64_t step, const Batch& batch)> before_step;
  /// May change a row's token after the fact (a NaN, for example).
  std::function<void(std::int64_t step, StepResult& result)> after_step;
  std::vector<Batch> batches;  ///< Every batch seen, if keep_batches.
  bool keep_batches = false;

 private:
  void check_step(const Batch& batch) const;
  void write(const Batch& batch, bool garbage);
  std::vector<TokenId> read(const BatchRow& row) const;
  void check_history(const BatchRow& row, const std::vector<TokenId>& tokens) const;

  FakeRunnerConfig config_;
  std::vector<TokenId> cells_;                 // [n_blocks, block_size]
  std::vector<std::vector<TokenId>> history_;  // [max_seqs], as derive_inputs fills it: by position
  RunnerStats stats_;
  std::vector<CaptureRecord> captures_;
  std::map<int, BucketTimes> bucket_times_;
};

}  // namespace monograph
