#include "graph/runner.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "graph/arena.h"
#include "graph/ladder.h"
#include "graph/start_up.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

class RunnerImpl : public Runner {
 public:
  RunnerImpl(const RunnerConfig& config, const Model& model, Backend& backend, std::vector<KvLayer> kv,
             const std::vector<GroupBlocks>& scratch, const Log& log)
      : config_(config),
        model_(model),
        backend_(backend),
        log_(log),
        scratch_(order_scratch(config.groups, scratch)),
        attention_(model.plan_attention(backend, AttentionMode::kDefault)),
        max_tokens_(largest_step(config)),
        arena_(backend, model.config(), max_tokens_, std::max(config.max_seqs, config.max_rows)) {
    CHECK(!kv.empty());
    stats_.fallbacks.assign(kPrefillStatusCount, 0);
    stats_.decode_misses.assign(kPrefillStatusCount, 0);
    limits_ = eager_limits(kv.front().n_blocks);
    context_.model = &model_;
    context_.backend = &backend_;
    context_.kv = std::move(kv);
    context_.groups = config_.groups;
    context_.skip_padding = config_.skip_padding;
    context_.last_layer = config_.last_layer;
    context_.sampled_vocab = config_.sampled_vocab > 0 ? config_.sampled_vocab : model_.config().vocab_size;
    if (config_.time_steps) {
      stopwatch_ = backend_.device->make_stopwatch();
      context_.stopwatch = stopwatch_.get();
    }
    context_.activations = [this](int capacity, int max_rows) { return arena_.activations(capacity, max_rows); };
    allocate_history();
    reserve_workspace();
    families_ = start_families(config_,
                               {.context = context_,
                                .attention = attention_,
                                .scratch = scratch_,
                                .history = {.ids = history_.as<std::int32_t>(),
                                            .lens = history_lens_.as<std::int32_t>(),
                                            .found = found_.as<std::int32_t>()},
                                .max_tokens = max_tokens_,
                                .max_rows = std::max(config_.max_seqs, config_.max_rows)},
                               log_);
    if (families_.extend) limits_.ladder = families_.extend->ladder();
  }

  /// Nothing may still run when graphs and buffers go (S-98). After a dirty capture this is never reached.
  ~RunnerImpl() override {
    try {
      backend_.device->synchronize();
    } catch (const Error& e) {
      log_.error(std::string("waiting for the device before its graphs are destroyed: ") + e.what());
    }
  }

  StepResult run(const Batch& batch) override {
    begin(batch);
    const auto role = auto_role(config_.instance, batch.has_prefill() ? BatchKind::kPrefill : BatchKind::kDecode);
    if (!role)
      throw Error(ErrorCode::kUnsupported,
                  "a decode step on an engine whose kind is " + std::string(to_string(config_.instance)));
    return *role == GraphRole::kDecode ? run_decode(batch) : run_prefill(batch);
  }

  StepResult run_eager(const Batch& batch, int capacity) override {
    begin(batch);
    return run_eager_now(batch, capacity);
  }

  Eligibility check(const Batch& batch) const override { return choose(batch); }
  PrefillStatus init_status() const override { return families_.extend_status; }
  const RunnerStats& stats() const override { return stats_; }
  const std::vector<CaptureRecord>& captures() const override { return families_.captures; }
  const std::map<int, BucketTimes>& bucket_times() const override { return families_.policy.times(); }

  const Staging* staging(GraphRole role) const override {
    const GraphFamily* family = role == GraphRole::kExtend   ? families_.extend.get()
                                : role == GraphRole::kDecode ? families_.decode.get()
                                                             : nullptr;
    return family ? &family->staging() : nullptr;
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
    limits_.n_blocks = n_blocks;
  }

  std::int64_t fixed_bytes() const override {
    std::int64_t bytes = arena_.bytes() + history_.bytes() + history_lens_.bytes();
    bytes += families_.eager->staging().bytes();
    if (families_.extend) bytes += families_.extend->staging().bytes();
    if (families_.decode) bytes += families_.decode->staging().bytes();
    return bytes;
  }

 private:
  static int largest_step(const RunnerConfig& config) {
    int n = std::max({config.max_eager_tokens, config.max_seqs, 1});
    for (const auto* ladder : {&config.prefill_buckets, &config.decode_buckets})
      if (!ladder->empty()) n = std::max(n, ladder->back());
    return n;
  }

  void allocate_history() {
    InputShape shape;
    shape.max_seqs = config_.max_seqs;
    shape.max_seq_len = config_.max_seq_len;
    history_ = backend_.device->allocate(4LL * shape.max_seqs * shape.max_seq_len);
    history_lens_ = backend_.device->allocate(4LL * shape.max_seqs);
    found_ = backend_.device->allocate_host(4LL * shape.max_seqs * shape.found_width());
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
    shape.sampled_vocab = context_.sampled_vocab;
    backend_.ops->reserve(shape);
  }

  void begin(const Batch& batch) {
    started_ = Clock::now();
    if (const std::string what = malformed(limits_, batch); !what.empty())
      throw Error(ErrorCode::kInvalidArgument, "a batch that cannot run: " + what);
  }

  StepResult run_eager_now(const Batch& batch, int capacity) {
    if (batch.n_tokens() > max_tokens_ ||
        static_cast<int>(batch.rows.size()) > families_.eager->staging().shape().max_rows)
      throw Error(ErrorCode::kInvalidArgument,
                  "a step of " + std::to_string(batch.n_tokens()) + " tokens in " + std::to_string(batch.rows.size()) +
                      " rows: at most " + std::to_string(max_tokens_) + " and " +
                      std::to_string(families_.eager->staging().shape().max_rows) + " fit");
    families_.eager->run_eager(batch, capacity > 0 ? capacity : batch.n_tokens());
    return finish(*families_.eager, batch, 0, PrefillStatus::kNotRequested);
  }

  /// What the forward can take; the ladder is added once it is captured.
  GraphLimits eager_limits(int n_blocks) const {
    GraphLimits limits;
    limits.max_rows = config_.max_rows;
    limits.max_seq_len = config_.max_seq_len;
    limits.block_size = config_.block_size;
    limits.table_width = config_.table_width();
    limits.groups = config_.groups;
    limits.n_blocks = n_blocks;
    limits.position_factor = model_.config().position_factor;
    limits.scratch = !scratch_.empty();
    limits.capabilities = attention_.capabilities;
    return limits;
  }

  /// The gates, then the policy, then whose graph.
  Eligibility choose(const Batch& batch) const {
    if (families_.extend_status != PrefillStatus::kReplayed) return {families_.extend_status, 0, "decided at start-up"};
    Eligibility found = check_batch(limits_, batch);
    if (found.ok() && config_.policy == GraphPolicy::kMeasured &&
        families_.policy.eager_is_faster(found.bucket, batch.n_tokens()))
      return {PrefillStatus::kEagerMeasuredFaster, 0, "bucket " + std::to_string(found.bucket)};
    if (!found.ok()) return found;
    // Rows of one token each are a decode step in all but name, and the decode ladder may fit them more closely.
    Eligibility decode = choose_decode(batch);
    return decode.ok() && decode.bucket < found.bucket ? decode : found;
  }

  StepResult run_prefill(const Batch& batch) {
    const Eligibility chosen = choose(batch);
    if (!chosen.ok()) {
      count_fallback("prefill", chosen, batch, stats_.fallbacks, prefill_ticks_, families_.extend.get());
      StepResult result = run_eager_now(batch, 0);
      result.status = chosen.status;
      return result;
    }
    GraphFamily& family = chosen.role == GraphRole::kDecode ? *families_.decode : *families_.extend;
    family.replay(batch, chosen.bucket);
    ++stats_.prefill_replays;
    ++stats_.bucket_hits[chosen.bucket];
    stats_.padding_tokens += chosen.bucket - batch.n_tokens();
    return finish(family, batch, chosen.bucket, PrefillStatus::kReplayed);
  }

  Eligibility choose_decode(const Batch& batch) const {
    if (!families_.decode) return {families_.decode_status, 0, "decided at start-up"};
    const int n_rows = static_cast<int>(batch.rows.size());
    if (batch.n_tokens() != n_rows)
      return {PrefillStatus::kInputMetadataInvalid, 0, "a decode row of more than one token"};
    const auto bucket = pick_bucket(families_.decode->ladder(), n_rows);
    if (!bucket) return {PrefillStatus::kRequestCountExceedCaptureLimit, 0, "more rows than the largest bucket"};
    return {PrefillStatus::kReplayed, *bucket, {}, GraphRole::kDecode};
  }

  StepResult run_decode(const Batch& batch) {
    const Eligibility chosen = choose_decode(batch);
    if (!chosen.ok()) {
      ++stats_.decode_eager;
      count_fallback("decode", chosen, batch, stats_.decode_misses, decode_ticks_, families_.decode.get());
      return run_eager_now(batch, 0);
    }
    families_.decode->replay(batch, chosen.bucket);
    ++stats_.decode_replays;
    return finish(*families_.decode, batch, chosen.bucket, PrefillStatus::kNotRequested);
  }

  using Ticks = std::array<Tick, kPrefillStatusCount>;

  /// The one place where a forward that fell back is counted and logged (S-87..S-90).
  void count_fallback(const char* what, const Eligibility& why, const Batch& batch, std::vector<std::int64_t>& counts,
                      Ticks& ticks, const GraphFamily* family) {
    const auto reason = static_cast<std::size_t>(why.status);
    ++counts[reason];
    if (why.status == PrefillStatus::kNotRequested) return;
    if (const auto count = ticks[reason].next())
      log_.warning(std::string(what) + " ran eager: reason=" + std::string(to_string(why.status)) +
                   " tokens=" + std::to_string(batch.n_tokens()) + " requests=" + std::to_string(batch.rows.size()) +
                   " max_bucket=" + std::to_string(family ? family->ladder().back() : 0) +
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
  std::vector<std::vector<std::int32_t>> scratch_;  // per group
  const AttentionBackend& attention_;
  int max_tokens_;
  Arena arena_;
  Buffer history_, history_lens_, found_;  // see History
  ForwardContext context_;
  std::unique_ptr<Stopwatch> stopwatch_;
  Clock::time_point started_;
  Families families_;
  GraphLimits limits_;
  RunnerStats stats_;
  Ticks prefill_ticks_, decode_ticks_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const RunnerConfig& config, const Model& model, Backend& backend,
                                    std::vector<KvLayer> kv, std::vector<GroupBlocks> scratch, const Log& log) {
  return std::make_unique<RunnerImpl>(config, model, backend, std::move(kv), scratch, log);
}

}  // namespace monograph
