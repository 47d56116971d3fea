// One family of graphs: its fixed buffers and one captured forward per bucket.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "graph/runner_config.h"
#include "graph/staging.h"
#include "model/model.h"
#include "ops/backend.h"

namespace monograph {

/// What every forward of a runner shares: the model, where its K and V live, and one arena of activations.
struct ForwardContext {
  const Model* model = nullptr;
  Backend* backend = nullptr;
  std::vector<KvLayer> kv;
  std::vector<CacheGroup> groups;  ///< What the layers' group numbers stand for.
  bool skip_padding = true;
  LastLayer last_layer = LastLayer::kFaster;
  int sampled_vocab = 0;  ///< Ids below this may be chosen.
  /// Activations for a capacity, carved from the arena.
  std::function<Activations(int capacity, int max_rows)> activations;
  Stopwatch* stopwatch = nullptr;  ///< Started and stopped around each step's work; null: no timing.
};

class GraphFamily {
 public:
  GraphFamily(const ForwardContext& context, const InputShape& shape, std::vector<std::vector<std::int32_t>> scratch,
              std::int32_t pad_token, const History& history);

  struct Captured {
    int bucket;
    double us;  ///< Warm-up, capture and self-test.
    int nodes;
    std::int64_t bytes;  ///< Of device memory.
  };
  /// Captures every bucket of the sorted ladder, largest first, so that shared memory is sized once (SPEC A.5). Where a
  /// capture is the driver's, a probe of the largest bucket and two warm-ups of each run before, and each graph is
  /// replayed once; where it only notes down tasks, the smallest is. All of it in the layout that writes to scratch
  /// only. `before_each` runs before each bucket and may throw to end it.
  std::vector<Captured> capture(const std::vector<int>& ladder, const std::function<void()>& before_each);

  /// Stages the batch and replays the bucket's graph; results are in sampled().
  void replay(const Batch& batch, int bucket);
  /// The same forward, op by op, with capacity = the batch's tokens.
  void run_eager(const Batch& batch) { run_eager(batch, batch.n_tokens()); }
  /// ... in the shape of a bucket.
  void run_eager(const Batch& batch, int capacity);

  /// When the last step was queued.
  std::chrono::steady_clock::time_point launched() const { return launched_; }

  const SampledRow* sampled() const { return staging_.sampled(); }
  const std::vector<int>& ladder() const { return ladder_; }
  const Staging& staging() const { return staging_; }

 private:
  /// Queues everything from staged inputs to sampled rows: what a graph holds.
  void forward(int capacity);
  /// Whether a forward of this capacity takes the rows that are sampled before its last layer ends.
  bool takes_rows(int capacity) const;
  /// Queues a step's work and waits for it.
  void run(const std::function<void()>& queue);
  /// Runs the forward of a bucket, all tokens the sentinel's.
  void warm_up(int bucket);
  void self_test(int bucket);

  const ForwardContext& context_;
  std::chrono::steady_clock::time_point launched_;
  Staging staging_;
  std::vector<int> ladder_;
  std::map<int, std::unique_ptr<Graph>> graphs_;
};

}  // namespace monograph
