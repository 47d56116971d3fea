#include "graph/runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "graph/family.h"
#include "graph/ladder.h"
#include "graph/policy.h"
#include "graph/role.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

int element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

/// One block of activations for the largest step, shared by all graphs and eager steps: they never overlap in time.
class Arena {
 public:
  Arena(Backend& backend, const ModelConfig& model, int max_tokens, int max_rows)
      : dtype_(backend.ops->activation_dtype()), model_(model) {
    const std::int64_t heads = static_cast<std::int64_t>(model.n_heads) * model.head_dim;
    const auto take = [&](std::int64_t width) {
      return backend.device->allocate(width * max_tokens * element_bytes(dtype_));
    };
    x_ = take(model.model_dim);
    q_ = take(heads);
    attn_ = take(heads);
    ffn_ = take(model.ffn_dim);
    logits_ = backend.device->allocate(4LL * max_rows * model.vocab_size);
  }

  Activations activations(int capacity, int max_rows) const {
    Activations a;
    a.x = {x_.data(), dtype_, {capacity, model_.model_dim}};
    a.q = {q_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
    a.attn = {attn_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
    a.ffn = {ffn_.data(), dtype_, {capacity, model_.ffn_dim}};
    a.logits = {logits_.as<float>(), {max_rows, model_.vocab_size}};
    return a;
  }

  const float* logits() const { return logits_.as<float>(); }
  std::int64_t bytes() const { return x_.bytes() + q_.bytes() + attn_.bytes() + ffn_.bytes() + logits_.bytes(); }

 private:
  DType dtype_;
  ModelConfig model_;
  Buffer x_, q_, attn_, ffn_, logits_;
};

class RunnerImpl : public Runner {
 public:
  RunnerImpl(const RunnerConfig& config, const Model& model, Backend& backend, std::vector<KvLayer> kv,
             std::vector<std::vector<std::int32_t>> scratch, const Log& log)
      : config_(config),
        model_(model),
        backend_(backend),
        log_(log),
        scratch_(std::move(scratch)),
        max_tokens_(largest_step(config)),
        arena_(backend, model.config(), max_tokens_, std::max(config.max_seqs, config.max_rows)) {
    CHECK(!kv.empty());
    n_blocks_ = kv.front().n_blocks;
    stats_.fallbacks.assign(kPrefillStatusCount, 0);
    context_.model = &model_;
    context_.backend = &backend_;
    context_.kv = std::move(kv);
    context_.skip_padding = config_.skip_padding;
    context_.sampled_vocab = config_.sampled_vocab > 0 ? config_.sampled_vocab : model_.config().vocab_size;
    if (config_.time_steps) {
      stopwatch_ = backend_.device->make_stopwatch();
      context_.stopwatch = stopwatch_.get();
    }
    context_.activations = [this](int capacity, int max_rows) { return arena_.activations(capacity, max_rows); };
    history_ = backend_.device->allocate(4LL * config_.max_seqs * config_.max_seq_len);
    history_lens_ = backend_.device->allocate(4LL * config_.max_seqs);
    reserve_workspace();
    eager_ = make_family(max_tokens_, std::max(config_.max_seqs, config_.max_rows), false);
    init_status_ = start_graphs();
    limits_ = limits();
  }

  StepResult run(const Batch& batch) override {
    begin(batch);
    if (!batch.has_prefill()) return run_decode(batch);
    const Eligibility chosen = choose(batch);
    if (!chosen.ok()) {
      count_fallback(chosen, batch);
      StepResult result = run_eager_now(batch, 0);
      result.status = chosen.status;
      return result;
    }
    extend_->replay(batch, chosen.bucket);
    ++stats_.prefill_replays;
    ++stats_.bucket_hits[chosen.bucket];
    stats_.padding_tokens += chosen.bucket - batch.n_tokens();
    return finish(*extend_, batch, chosen.bucket, PrefillStatus::kReplayed);
  }

  StepResult run_eager(const Batch& batch, int capacity) override {
    begin(batch);
    return run_eager_now(batch, capacity);
  }

  Eligibility check(const Batch& batch) const override { return choose(batch); }
  PrefillStatus init_status() const override { return init_status_; }
  const RunnerStats& stats() const override { return stats_; }
  const std::vector<CaptureRecord>& captures() const override { return captures_; }

  void load_history(int history_row, std::span<const std::int32_t> tokens) override {
    CHECK(history_row >= 0 && history_row < config_.max_seqs && static_cast<int>(tokens.size()) <= config_.max_seq_len);
    std::int32_t* row = history_.as<std::int32_t>() + static_cast<std::int64_t>(history_row) * config_.max_seq_len;
    backend_.device->copy_to_device(row, tokens.data(), static_cast<std::int64_t>(tokens.size_bytes()));
    backend_.device->synchronize();
  }

  std::vector<float> last_logits(int n_rows) override {
    std::vector<float> logits(static_cast<std::size_t>(n_rows) * model_.config().vocab_size);
    backend_.device->copy_to_host(logits.data(), arena_.logits(),
                                  static_cast<std::int64_t>(logits.size() * sizeof(float)));
    backend_.device->synchronize();
    return logits;
  }

  void limit_blocks(int n_blocks) override {
    CHECK(n_blocks >= 1 && n_blocks <= context_.kv.front().n_blocks);
    n_blocks_ = n_blocks;
    limits_ = limits();
  }

  int max_tokens() const override { return extend_ ? extend_->ladder().back() : max_tokens_; }
  int max_rows() const override { return config_.max_rows; }

  std::int64_t fixed_bytes() const override {
    std::int64_t bytes = arena_.bytes() + history_.bytes() + history_lens_.bytes() + eager_->staging().bytes();
    if (extend_) bytes += extend_->staging().bytes();
    if (decode_) bytes += decode_->staging().bytes();
    return bytes;
  }

 private:
  static int largest_step(const RunnerConfig& config) {
    int n = std::max({config.max_eager_tokens, config.max_seqs, 1});
    for (const auto* ladder : {&config.prefill_buckets, &config.decode_buckets})
      if (!ladder->empty()) n = std::max(n, ladder->back());
    return n;
  }

  std::unique_ptr<GraphFamily> make_family(int max_tokens, int max_rows, bool with_scratch) {
    InputShape shape;
    shape.max_tokens = max_tokens;
    shape.max_rows = max_rows;
    shape.block_size = config_.block_size;
    shape.table_width = table_width();
    shape.n_groups = 1;
    shape.position_factor = model_.config().position_factor;
    shape.max_seqs = config_.max_seqs;
    shape.max_seq_len = config_.max_seq_len;
    return std::make_unique<GraphFamily>(context_, shape, with_scratch ? scratch_ : no_scratch(),
                                         model_.config().pad_token_id.value_or(0), history_.as<std::int32_t>(),
                                         history_lens_.as<std::int32_t>());
  }

  void reserve_workspace() {
    const ModelConfig& model = model_.config();
    WorkspaceShape shape;
    shape.max_tokens = max_tokens_;
    shape.max_rows = std::max(config_.max_seqs, config_.max_rows);
    shape.model_dim = model.model_dim;
    shape.ffn_dim = model.ffn_dim;
    shape.n_heads = model.n_heads;
    shape.n_kv_heads = model.n_kv_heads;
    shape.head_dim = model.head_dim;
    shape.vocab_size = model.vocab_size;
    backend_.ops->reserve(shape);
  }

  void begin(const Batch& batch) {
    started_ = Clock::now();
    if (const std::string what = malformed(limits_, batch); !what.empty())
      throw Error(ErrorCode::kInvalidArgument, "a batch that cannot run: " + what);
  }

  StepResult run_eager_now(const Batch& batch, int capacity) {
    if (batch.n_tokens() > max_tokens_ || static_cast<int>(batch.rows.size()) > eager_->staging().shape().max_rows)
      throw Error(ErrorCode::kInvalidArgument, "a step of " + std::to_string(batch.n_tokens()) + " tokens in " +
                                                   std::to_string(batch.rows.size()) + " rows: at most " +
                                                   std::to_string(max_tokens_) + " and " +
                                                   std::to_string(config_.max_seqs) + " fit");
    eager_->run_eager(batch, capacity > 0 ? capacity : batch.n_tokens());
    return finish(*eager_, batch, 0, PrefillStatus::kNotRequested);
  }

  static std::vector<std::vector<std::int32_t>> no_scratch() { return {}; }
  int table_width() const { return (config_.max_seq_len + config_.block_size - 1) / config_.block_size; }

  GraphLimits limits() const {
    GraphLimits limits;
    if (extend_) limits.ladder = extend_->ladder();
    limits.max_rows = config_.max_rows;
    limits.max_seq_len = config_.max_seq_len;
    limits.block_size = config_.block_size;
    limits.table_width = table_width();
    limits.n_blocks = n_blocks_;
    limits.position_factor = model_.config().position_factor;
    limits.scratch = !scratch_.empty();
    limits.capabilities = backend_.capabilities;
    return limits;
  }

  /// Captures both families; the prefill family's outcome. Under `strict` a degradation is an error (D6).
  PrefillStatus start_graphs() {
    if (config_.enable_graphs && !config_.decode_buckets.empty() && topology_supported(config_.topology) &&
        enough_scratch(config_.decode_buckets.back()))
      decode_ = captured_family(GraphRole::kDecode, config_.decode_buckets, config_.max_seqs);
    if (!config_.enable_graphs || !config_.enable_prefill_graphs) return PrefillStatus::kNotRequested;
    if (!topology_supported(config_.topology))
      return degrade(PrefillStatus::kTopologyNotSupported, "a parallel size above 1");
    if (!backend_.capabilities.prefill_graph)
      return degrade(PrefillStatus::kAttentionBackendUnsupported,
                     "the backend's attention is not safe in a prefill graph");
    if (config_.prefill_buckets.empty()) return degrade(PrefillStatus::kCaptureUnavailable, "the ladder is empty");
    if (!enough_scratch(config_.prefill_buckets.back()))
      return degrade(PrefillStatus::kScratchKvUnavailable, "scratch blocks do not cover the largest bucket");
    try {
      extend_ = captured_family(GraphRole::kExtend, config_.prefill_buckets, config_.max_rows);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kDirtyCapture) throw;
      return degrade(PrefillStatus::kCaptureUnavailable, e.what());
    }
    if (config_.policy == GraphPolicy::kMeasured) measure_buckets();
    return PrefillStatus::kReplayed;
  }

  bool enough_scratch(int bucket) const {
    const std::size_t needed = static_cast<std::size_t>((bucket + config_.block_size - 1) / config_.block_size);
    if (scratch_.empty()) return false;
    for (const auto& blocks : scratch_)
      if (blocks.size() < std::min<std::size_t>(needed, static_cast<std::size_t>(table_width()))) return false;
    return true;
  }

  PrefillStatus degrade(PrefillStatus status, const std::string& why) {
    const std::string line = "prefill graphs are off: reason=" + std::string(to_string(status)) + " detail=" + why;
    if (config_.strict) throw Error(ErrorCode::kUnsupported, line + " (--strict-cuda-graph)");
    log_.warning(line);
    return status;
  }

  std::unique_ptr<GraphFamily> captured_family(GraphRole role, const std::vector<int>& ladder, int max_rows) {
    auto family = make_family(ladder.back(), max_rows, true);
    for (const auto& captured : family->capture(ladder))
      captures_.push_back({std::string(to_string(role)), captured.bucket, captured.us, captured.bytes, captured.nodes});
    return family;
  }

  /// Times a full step of each bucket both ways, on a row that lives in scratch (D3).
  void measure_buckets() {
    for (int bucket : extend_->ladder()) {
      const Batch batch = scratch_batch(bucket);
      policy_.set(bucket, median_us([&] { extend_->replay(batch, bucket); }),
                  median_us([&] { eager_->run_eager(batch); }));
    }
  }

  Batch scratch_batch(int n_tokens) const {
    Batch batch;
    batch.input_ids.assign(n_tokens, 0);
    batch.rows.resize(1);
    batch.rows[0].n_tokens = n_tokens;
    batch.rows[0].prefill = true;
    batch.rows[0].block_tables = scratch_;
    batch.rows[0].sampling.samples = 1;
    if (const int p = model_.config().position_factor; p > 0)
      batch.position_ids.emplace(static_cast<std::size_t>(n_tokens) * p, 0);
    return batch;
  }

  static double median_us(const std::function<void()>& work) {
    std::array<double, 3> us{};
    for (double& one : us) {
      const auto start = Clock::now();
      work();
      one = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    std::sort(us.begin(), us.end());
    return us[1];
  }

  /// The gates, then the policy.
  Eligibility choose(const Batch& batch) const {
    if (init_status_ != PrefillStatus::kReplayed) return {init_status_, 0, "decided at start-up"};
    Eligibility found = check_batch(limits_, batch);
    if (found.ok() && config_.policy == GraphPolicy::kMeasured &&
        policy_.eager_is_faster(found.bucket, batch.n_tokens()))
      return {PrefillStatus::kEagerMeasuredFaster, 0, "bucket " + std::to_string(found.bucket)};
    return found;
  }

  StepResult run_decode(const Batch& batch) {
    const int n_rows = static_cast<int>(batch.rows.size());
    const bool single = batch.n_tokens() == n_rows;
    const auto bucket = decode_ && single ? pick_bucket(decode_->ladder(), n_rows) : std::nullopt;
    if (!bucket) {
      ++stats_.decode_eager;
      return run_eager_now(batch, 0);
    }
    decode_->replay(batch, *bucket);
    ++stats_.decode_replays;
    return finish(*decode_, batch, *bucket, PrefillStatus::kNotRequested);
  }

  /// The one place where a forward with prefill work that fell back is counted and logged (S-87, S-88).
  void count_fallback(const Eligibility& why, const Batch& batch) {
    if (why.status == PrefillStatus::kNotRequested) return;
    const auto reason = static_cast<std::size_t>(why.status);
    ++stats_.fallbacks[reason];
    if (const auto count = ticks_[reason].next())
      log_.warning("prefill ran eager: reason=" + std::string(to_string(why.status)) +
                   " tokens=" + std::to_string(batch.n_tokens()) + " requests=" + std::to_string(batch.rows.size()) +
                   " max_bucket=" + std::to_string(extend_ ? extend_->ladder().back() : 0) +
                   " count=" + std::to_string(count) + " detail=" + why.detail);
  }

  StepResult finish(const GraphFamily& family, const Batch& batch, int bucket, PrefillStatus status) {
    StepResult result;
    result.rows.assign(family.sampled(), family.sampled() + batch.rows.size());
    result.status = status;
    result.replayed = bucket > 0;
    result.bucket = bucket;
    result.step = ++stats_.steps;
    result.launch_us = std::chrono::duration<double, std::micro>(family.launched() - started_).count();
    if (stopwatch_) result.device_us = stopwatch_->elapsed_us();
    return result;
  }

  RunnerConfig config_;
  const Model& model_;
  Backend& backend_;
  Log log_;
  std::vector<std::vector<std::int32_t>> scratch_;
  int max_tokens_;
  int n_blocks_ = 0;
  Arena arena_;
  Buffer history_, history_lens_;
  ForwardContext context_;
  std::unique_ptr<Stopwatch> stopwatch_;
  GraphLimits limits_;  // of run(); fixed after start-up
  Clock::time_point started_;
  std::unique_ptr<GraphFamily> eager_, extend_, decode_;
  PrefillStatus init_status_ = PrefillStatus::kCaptureUnavailable;
  MeasuredPolicy policy_;
  RunnerStats stats_;
  std::vector<CaptureRecord> captures_;
  std::array<Tick, kPrefillStatusCount> ticks_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const RunnerConfig& config, const Model& model, Backend& backend,
                                    std::vector<KvLayer> kv, std::vector<std::vector<std::int32_t>> scratch,
                                    const Log& log) {
  return std::make_unique<RunnerImpl>(config, model, backend, std::move(kv), std::move(scratch), log);
}

}  // namespace monograph
