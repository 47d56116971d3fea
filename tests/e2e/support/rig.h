// A model on a runner, driven step by step: sequences with their blocks, and the logits of every row. What the engine
// does over time, a test does here by hand.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "graph/runner.h"
#include "model/model.h"
#include "ops/backend.h"

namespace monograph::e2e {

struct RigOptions {
  BackendOptions backend;
  std::vector<int> prefill_buckets = {8, 24, 64, 136, 256, 640};
  std::vector<int> decode_buckets = {1, 4, 8};
  int max_rows = 8;
  int max_seqs = 8;
  int max_seq_len = 640;
  int n_blocks = 64;
  bool enable_graphs = true;
  bool skip_padding = true;
};

struct Sequence {
  std::vector<std::int32_t> tokens;  ///< Prompt, then what the test appends.
  int n_cached = 0;                  ///< Tokens whose K and V are in `blocks`.
  int n_found = 0;                   ///< Tokens of a shared prefix, until a step has told the device of them.
  int history_row = 0;
  std::vector<std::int32_t> blocks;
};

enum class Mode {
  kRun,          ///< Replay where a graph fits; a prefill that does not replay fails the test.
  kEager,        ///< Op by op, in the batch's own shape.
  kEagerBucket,  ///< Op by op, in the shape of the bucket that run() would take.
};

/// A sequence's part of a step: its next n_tokens that are not in the cache.
struct Piece {
  Sequence* sequence = nullptr;
  int n_tokens = 0;
  bool prefill = true;
};

using Logits = std::vector<float>;

struct StepOutput {
  StepResult result;
  std::vector<Logits> logits;  ///< Of each piece's last row.
};

class Rig {
 public:
  Rig(const std::string& model_path, RigOptions options);

  Sequence start(std::span<const std::int32_t> tokens, int history_row = 0) const;
  /// Lets `to` begin with the full blocks that hold its first n_tokens in `from`; as a prefix hit does.
  void share_prefix(Sequence& to, const Sequence& from, int n_tokens);
  /// Gives up the blocks, as a finished or preempted sequence does; the next owner finds old K and V in them.
  void drop(Sequence& sequence);

  StepOutput step(std::span<const Piece> pieces, Mode mode = Mode::kRun);
  /// One sequence's next n_tokens, alone.
  Logits advance(Sequence& sequence, int n_tokens, bool prefill = true, Mode mode = Mode::kRun);
  /// A fresh sequence of these tokens in one step; its blocks are dropped again.
  Logits one_shot(std::span<const std::int32_t> tokens, Mode mode = Mode::kRun);
  /// ... in chunks; the last chunk's logits.
  Logits chunked(std::span<const std::int32_t> tokens, int chunk, Mode mode = Mode::kRun);

  const ModelFiles& files() const { return *files_; }
  const ModelConfig& config() const { return model_->config(); }
  Runner& runner() { return *runner_; }
  int block_size() const { return kBlockSize; }

 private:
  static constexpr int kBlockSize = 64;
  void cover(Sequence& sequence, int n_tokens);
  Batch make_batch(std::span<const Piece> pieces);

  RigOptions options_;
  Backend backend_;
  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Runner> runner_;
  std::vector<std::int32_t> free_;
  std::vector<int> references_;
};

/// MONOGRAPH_E2E=full: every length and every setting, for the `test` tier. Otherwise a selection that takes seconds.
bool full();

/// Path of a tiny model or golden under tests/golden.
std::string tiny_model(const std::string& name);
std::string golden_file(const std::string& name);

/// max|a - b| / max|reference|; infinite if a length differs or a value is not finite.
double relative_error(const Logits& logits, const Logits& reference);
bool same_bits(const Logits& a, const Logits& b);
int argmax(const Logits& logits);

}  // namespace monograph::e2e
