// A whole lane on the CPU for tests: tiny model, cache, runner; and batches of sequences with their own blocks.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "graph/ladder.h"
#include "graph/runner.h"
#include "monograph/error.h"
#include "tests/support/checked_device.h"
#include "tests/support/devices.h"
#include "tests/support/tiny_model.h"

namespace monograph::testing {

struct LaneOptions {
  ModelConfig model = tiny_config();
  std::shared_ptr<const ModelFiles> files;  // instead of a tiny model of `model`
  std::string device = "cpu";               // a name of devices.h
  DType activation_dtype = DType::kF32;
  int threads = 1;
  std::string cpu_target;
  int n_blocks = 64, block_size = 64, n_scratch = -1;  // -1: what the largest bucket needs
  RunnerConfig runner = default_runner();
  std::optional<BackendCapabilities> capabilities;  // replace the backend's own
  std::vector<std::string> group_tags{"full"};      // layer i belongs to group i % size
  std::vector<std::string> scratch_tags;            // their order at the runner's door; empty: as group_tags
  CheckedDevice::Hook hook;                         // told of every device call
  bool warm_up = false;                             // capture as a device that executes what it captures
  std::function<void(bool capturing)> on_forward;   // before every forward
  std::function<const AttentionBackend&(const Backend&, AttentionMode)> plan;  // instead of the model's own
  int cache_byte = 0;  // what the cache holds before anything runs
  Log log;

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

/// A model that says when it is run, and may plan its attention as a test wants.
class ToldModel : public Model {
 public:
  ToldModel(std::unique_ptr<Model> inner, const Device& device, const LaneOptions& options)
      : inner_(std::move(inner)), device_(device), told_(options.on_forward), plan_(options.plan) {}
  const ModelConfig& config() const override { return inner_->config(); }
  std::int64_t weight_bytes() const override { return inner_->weight_bytes(); }
  void forward(Ops& ops, const StepInputs& in, std::span<const KvLayer> kv, Activations& a) const override {
    if (told_) told_(device_.capturing());
    inner_->forward(ops, in, kv, a);
  }
  const AttentionBackend& plan_attention(const Backend& backend, AttentionMode mode) const override {
    return plan_ ? plan_(backend, mode) : inner_->plan_attention(backend, mode);
  }

 private:
  std::unique_ptr<Model> inner_;
  const Device& device_;
  std::function<void(bool)> told_;
  std::function<const AttentionBackend&(const Backend&, AttentionMode)> plan_;
};

class Lane {
 public:
  explicit Lane(LaneOptions options = {}) : options_(std::move(options)) {
    if (!options_.files) options_.files = std::make_shared<TinyFiles>(options_.model);
    options_.model = options_.files->config();
    BackendOptions backend = named_backend(options_.device);
    if (backend.device == "cpu") backend.activation_dtype = options_.activation_dtype;
    options_.activation_dtype = backend.activation_dtype;
    backend.threads = options_.threads;
    backend.cpu_target = options_.cpu_target;
    backend_ = make_backend(backend, Log{});
    auto checked = std::make_unique<CheckedDevice>(std::move(backend_.device), nullptr, options_.warm_up);
    device_ = checked.get();
    backend_.device = std::move(checked);
    if (options_.capabilities) backend_.attention[0].capabilities = *options_.capabilities;
    RunnerConfig& runner = options_.runner;
    runner.block_size = options_.block_size;
    runner.groups.clear();
    for (const auto& tag : options_.group_tags) runner.groups.push_back({.tag = tag});
    model_ =
        std::make_unique<ToldModel>(load_model(*options_.files, backend_, runner.max_seq_len, {}), *device_, options_);
    KvCacheShape shape;
    shape.n_layers = options_.model.n_layers;
    shape.n_kv_heads = options_.model.n_kv_heads;
    shape.head_dim = options_.model.head_dim;
    shape.block_size = options_.block_size;
    shape.dtype = options_.activation_dtype;
    cache_ = std::make_unique<KvCache>(*backend_.device, shape, options_.n_blocks);
    if (options_.cache_byte) fill_cache(static_cast<unsigned char>(options_.cache_byte));
    make_scratch();
    first_piece_ = device_->pieces().size();
    device_->set_hook(options_.hook);
    runner_ = make_runner(runner, *model_, backend_, layers(), scratch_of_tags(), options_.log);
  }

  Runner& runner() { return *runner_; }
  Backend& backend() { return backend_; }
  const Model& model() const { return *model_; }
  KvCache& cache() { return *cache_; }
  CheckedDevice& device() { return *device_; }
  const LaneOptions& options() const { return options_; }
  /// Ends the runner, as an engine does: before cache and model.
  void drop_runner() { runner_.reset(); }
  /// The arena's buffers are the first that a runner asks for: x, q, attention, ffn, the last rows of x, logits. All
  /// become NaN.
  void poison_activations() {
    for (std::size_t i = first_piece_; i < first_piece_ + 6; ++i) {
      const auto [data, bytes] = device_->pieces().at(i);
      const std::vector<unsigned char> nan(static_cast<std::size_t>(bytes), 0xff);
      device_->copy_to_device(data, nan.data(), bytes);
      device_->synchronize();
    }
  }
  /// The id that a group's tables use for a block: groups are numbered apart, so that a table in the wrong place shows.
  std::int32_t in_group(std::int32_t block, std::size_t group) const {
    return group % 2 == 0 ? block : options_.n_blocks - block;
  }
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
    const auto n_blocks = (s.cached + n + options_.block_size - 1) / options_.block_size;
    for (std::size_t group = 0; group < options_.group_tags.size(); ++group) {
      row.block_tables.emplace_back(s.blocks.begin(), s.blocks.begin() + n_blocks);
      for (auto& block : row.block_tables.back()) block = in_group(block, group);
    }
    batch.group_tags = options_.group_tags;
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
    for (const KvLayer& layer : layers()) {
      const std::int64_t size = block_size_bytes(layer);
      const std::int64_t offset = size * in_group(block, static_cast<std::size_t>(layer.group));
      for (const void* side : {layer.k, layer.v}) {
        const auto at = bytes.size();
        bytes.resize(at + static_cast<std::size_t>(size));
        backend_.device->copy_to_host(bytes.data() + at, static_cast<const std::byte*>(side) + offset, size);
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
  std::vector<KvLayer> layers() const {
    auto layers = cache_->layers();
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].group = static_cast<int>(i % options_.group_tags.size());
    return layers;
  }
  /// The last blocks of the cache.
  void make_scratch() {
    const auto& ladder = options_.runner.prefill_buckets;
    int n = options_.n_scratch;
    if (n < 0) n = ladder.empty() ? 0 : (ladder.back() + options_.block_size - 1) / options_.block_size;
    if (n > 0) scratch_.resize(options_.group_tags.size());
    for (std::size_t group = 0; group < scratch_.size(); ++group)
      for (int i = 0; i < n; ++i) scratch_[group].push_back(in_group(options_.n_blocks - 1 - i, group));
  }
  std::vector<GroupBlocks> scratch_of_tags() const {
    std::vector<GroupBlocks> blocks;
    if (scratch_.empty()) return blocks;
    for (const auto& tag : options_.scratch_tags.empty() ? options_.group_tags : options_.scratch_tags) {
      const auto at = std::find(options_.group_tags.begin(), options_.group_tags.end(), tag);
      const bool known = at != options_.group_tags.end();
      blocks.push_back({tag, known ? scratch_[static_cast<std::size_t>(at - options_.group_tags.begin())]
                                   : std::vector<std::int32_t>{1}});
    }
    return blocks;
  }
  static std::int64_t block_size_bytes(const KvLayer& layer) {
    return std::int64_t{layer.block_size} * layer.n_kv_heads * layer.head_dim * (layer.dtype == DType::kF32 ? 4 : 2);
  }

  LaneOptions options_;
  Backend backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  CheckedDevice* device_ = nullptr;
  std::size_t first_piece_ = 0;
  std::vector<std::vector<std::int32_t>> scratch_;
  std::unique_ptr<Runner> runner_;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace monograph::testing
