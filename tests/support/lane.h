// A whole lane on the CPU for tests: tiny model, cache, runner; and batches of sequences with their own blocks.
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "cache/kv_cache.h"
#include "graph/ladder.h"
#include "graph/runner.h"
#include "monograph/error.h"
#include "tests/support/tiny_model.h"

namespace monograph::testing {

/// "cpu", and "cuda" where the build has it and a GPU is there: a test has one body and runs on each.
inline std::vector<std::string> devices() {
  std::vector<std::string> names{"cpu"};
  try {
    BackendOptions options;
    options.device = "cuda";
    options.activation_dtype = DType::kBF16;
    make_backend(options, Log{});
    names.push_back("cuda");
  } catch (const Error&) {
  }
  return names;
}

struct LaneOptions {
  ModelConfig model = tiny_config();
  std::shared_ptr<const ModelFiles> files;  // instead of a tiny model of `model`
  std::string device = "cpu";
  DType activation_dtype = DType::kF32;
  int threads = 1;
  std::string cpu_target;
  int n_blocks = 64, block_size = 64, n_scratch = -1;  // -1: what the largest bucket needs
  RunnerConfig runner = default_runner();
  BackendCapabilities* capabilities = nullptr;  // replaces the backend's own

  static RunnerConfig default_runner() {
    RunnerConfig runner;
    runner.prefill_buckets = {16, 32, 64, 128, 160};
    runner.decode_buckets = {1, 2, 4, 8};
    runner.max_rows = 6;
    runner.max_seqs = 8;
    runner.max_seq_len = 512;
    return runner;
  }
};

/// A sequence under test: its tokens, its blocks, how far the cache holds it.
struct TestSequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> blocks;
  int cached = 0;
  int history_row = 0;
};

class Lane {
 public:
  explicit Lane(LaneOptions options = {}) : options_(std::move(options)) {
    if (!options_.files) options_.files = std::make_shared<TinyFiles>(options_.model);
    options_.model = options_.files->config();
    BackendOptions backend;
    if (options_.device == "cuda") options_.activation_dtype = DType::kBF16;
    backend.device = options_.device;
    backend.activation_dtype = options_.activation_dtype;
    backend.threads = options_.threads;
    backend.cpu_target = options_.cpu_target;
    backend_ = make_backend(backend, Log{});
    if (options_.capabilities) backend_.capabilities = *options_.capabilities;
    RunnerConfig& runner = options_.runner;
    runner.block_size = options_.block_size;
    model_ = load_model(*options_.files, backend_, runner.max_seq_len, {});
    KvCacheShape shape;
    shape.n_layers = options_.model.n_layers;
    shape.n_kv_heads = options_.model.n_kv_heads;
    shape.head_dim = options_.model.head_dim;
    shape.block_size = options_.block_size;
    shape.dtype = options_.activation_dtype;
    cache_ = std::make_unique<KvCache>(*backend_.device, shape, options_.n_blocks);
    int n_scratch = options_.n_scratch;
    if (n_scratch < 0)
      n_scratch = runner.prefill_buckets.empty()
                      ? 0
                      : (runner.prefill_buckets.back() + options_.block_size - 1) / options_.block_size;
    std::vector<std::vector<std::int32_t>> scratch;
    if (n_scratch > 0) scratch.emplace_back();
    for (int i = 0; i < n_scratch; ++i) scratch[0].push_back(options_.n_blocks - 1 - i);
    scratch_ = scratch;
    runner_ = make_runner(runner, *model_, backend_, cache_->layers(), scratch, Log{});
  }

  Runner& runner() { return *runner_; }
  Backend& backend() { return backend_; }
  const Model& model() const { return *model_; }
  KvCache& cache() { return *cache_; }
  const std::vector<std::vector<std::int32_t>>& scratch() const { return scratch_; }

  /// A sequence of random tokens with the blocks first_block, first_block + 1, ...
  TestSequence sequence(int n_tokens, unsigned seed, int first_block, int history_row = 0) const {
    TestSequence s;
    std::mt19937 random(seed);
    for (int i = 0; i < n_tokens; ++i)
      s.tokens.push_back(static_cast<std::int32_t>(random() % options_.model.vocab_size));
    const int needed = (options_.runner.max_seq_len + options_.block_size - 1) / options_.block_size;
    for (int i = 0; i < needed; ++i) s.blocks.push_back(first_block + i);
    s.history_row = history_row;
    return s;
  }

  /// Adds the next n tokens of `s` to the batch as one row; `cached` moves on.
  void add(Batch& batch, TestSequence& s, int n, bool prefill = true, bool samples = true) const {
    BatchRow row;
    row.n_tokens = n;
    row.prefix = s.cached;
    row.prefill = prefill;
    row.block_tables = {
        {s.blocks.begin(), s.blocks.begin() + (s.cached + n + options_.block_size - 1) / options_.block_size}};
    row.sampling.samples = samples;
    row.sampling.history_row = s.history_row;
    row.sampling.prompt_len = static_cast<std::int32_t>(s.tokens.size());
    batch.input_ids.insert(batch.input_ids.end(), s.tokens.begin() + s.cached, s.tokens.begin() + s.cached + n);
    batch.rows.push_back(std::move(row));
    s.cached += n;
  }

  std::vector<float> logits(int row) {
    const int v = options_.model.vocab_size;
    const std::vector<float> all = runner_->last_logits(row + 1);
    return {all.begin() + static_cast<std::ptrdiff_t>(row) * v, all.begin() + static_cast<std::ptrdiff_t>(row + 1) * v};
  }

  /// The bytes of one block in every layer, K then V.
  std::vector<std::byte> block_bytes(int block) const {
    std::vector<std::byte> bytes;
    for (const KvLayer& layer : cache_->layers()) {
      const std::int64_t size = block_size_bytes(layer);
      for (const void* side : {layer.k, layer.v}) {
        const auto at = bytes.size();
        bytes.resize(at + static_cast<std::size_t>(size));
        backend_.device->copy_to_host(bytes.data() + at, static_cast<const std::byte*>(side) + size * block, size);
      }
    }
    backend_.device->synchronize();
    return bytes;
  }

  void fill_cache(unsigned char value) {
    for (const KvLayer& layer : cache_->layers()) {
      const std::vector<unsigned char> bytes(static_cast<std::size_t>(block_size_bytes(layer) * layer.n_blocks), value);
      for (void* side : {layer.k, layer.v}) {
        backend_.device->copy_to_device(side, bytes.data(), static_cast<std::int64_t>(bytes.size()));
        backend_.device->synchronize();
      }
    }
  }

 private:
  static std::int64_t block_size_bytes(const KvLayer& layer) {
    return std::int64_t{layer.block_size} * layer.n_kv_heads * layer.head_dim * (layer.dtype == DType::kF32 ? 4 : 2);
  }

  LaneOptions options_;
  Backend backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::vector<std::int32_t>> scratch_;
  std::unique_ptr<Runner> runner_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace monograph::testing
