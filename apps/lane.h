// A model with its cache and runner, without engine or scheduler: what `bench` times and `inspect graphs` shows.
#pragma once
#include <memory>
#include <vector>

#include "base/log.h"
#include "cache/kv_cache.h"
#include "graph/batch.h"
#include "graph/runner.h"
#include "model/model_files.h"
#include "monograph/config.h"
#include "ops/backend.h"

namespace monograph::app {

/// The model that --model and --load-format name.
std::unique_ptr<ModelFiles> open_files(const EngineConfig& config);

class Lane {
 public:
  /// Ladders as the engine would choose them from `config`; a cache of `n_sequences` full sequences. Steps are timed by
  /// the device too. With `measure_buckets` the runner knows each bucket's graph and eager time whatever the policy.
  Lane(const EngineConfig& config, int n_sequences, const Log& log, bool measure_buckets = false);

  Runner& runner() { return *runner_; }
  const ModelFiles& files() const { return *files_; }
  const RunnerConfig& runner_config() const { return runner_config_; }
  std::string device() const { return backend_.device->description(); }
  int max_seq_len() const { return runner_config_.max_seq_len; }

  /// One row per sequence: `n_tokens` new tokens (drawn from a fixed seed) after `prefix` cached ones, greedy.
  Batch batch(int n_rows, int n_tokens, int prefix, bool prefill) const;

 private:
  std::unique_ptr<ModelFiles> files_;
  Backend backend_;  // outlives everything allocated from it
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  RunnerConfig runner_config_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace monograph::app
