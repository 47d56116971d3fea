// The facade: builds everything below in order, takes requests on the caller's thread, hands ids to the loop.
#include "monograph/engine.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/check.h"
#include "cache/reservation.h"
#include "device/cpu/thread_pool.h"
#include "engine/loop.h"
#include "engine/memory_budget.h"
#include "engine/request_check.h"
#include "engine/response.h"
#include "engine/text_parts.h"
#include "model/model.h"
#include "ops/backend.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;

Error no_tokenizer() { return Error(ErrorCode::kUnsupported, "the model has no tokenizer; use token ids"); }

SlotSampling slot_sampling(const SamplingParams& s, std::uint64_t seed) {
  SlotSampling slot;
  slot.temperature = s.temperature < 1e-5f ? 0.0f : s.temperature;
  slot.top_p = s.top_p;
  slot.min_p = s.min_p;
  slot.repetition_penalty = s.repetition_penalty;
  slot.presence_penalty = s.presence_penalty;
  slot.frequency_penalty = s.frequency_penalty;
  slot.top_k = std::max(s.top_k, 0);
  slot.seed = seed;
  slot.n_logprobs = s.logprobs;
  return slot;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

void check_block_size(int size, int needed) {
  if (needed != 0 && size != needed)
    throw Error(ErrorCode::kInvalidArgument,
                "--block-size " + std::to_string(size) + ": the GPU's kernels need " + std::to_string(needed),
                "block-size");
}

/// On a GPU there are cores to spare, and first tokens that are due in less than a thread takes to wake twice.
int default_spin_us(const Device& device) { return device.memory().own && cpu::usable_cpus() >= 4 ? 10'000 : 0; }

class EngineImpl : public Engine {
 public:
  EngineImpl(const EngineConfig& config, Log log, const std::function<bool()>& cancelled);

  ResponseStream submit(Request request) override;

  const ModelInfo& info() const override { return info_; }
  std::chrono::microseconds spin() const override { return spin_; }
  std::vector<TokenId> tokenize(std::string_view text, bool add_special, bool parse_special) const override {
    return tokenizer().encode(text, {.add_special = add_special, .parse_special = parse_special});
  }
  std::vector<TokenId> tokenize_chat(const std::string& chat) const override { return this->chat().encode(chat); }
  std::string detokenize(std::span<const TokenId> ids) const override {
    return to_valid_utf8(tokenizer().decode(ids, /*with_special=*/true));
  }
  std::string token_text(TokenId id) const override { return tokenizer().token_bytes(id, /*with_special=*/true); }
  std::string render_chat(const std::string& chat) const override { return this->chat().render(chat); }
  SamplingParams default_sampling() const override { return text_.defaults; }

  std::string metrics() const override { return metrics_->render(); }
  double seconds_since_heartbeat() const override { return loop_->seconds_since_heartbeat(); }
  void stop(std::chrono::milliseconds deadline) override { loop_->stop(deadline); }

 private:
  void load(const EngineConfig& config, const std::function<bool()>& cancelled);
  void build_runner(const EngineConfig& config, const std::function<bool()>& cancelled);
  void start_loop(const EngineConfig& config);
  KvCacheShape kv_shape() const;
  MemoryShape memory_shape() const;
  KvPlan largest_pool(const EngineConfig& config, const KvCacheShape& shape) const;
  void make_runner_and_graphs(const EngineConfig& config, const std::vector<BlockId>& scratch,
                              const std::function<bool()>& cancelled);
  void grow_pool(const EngineConfig& config, const KvCacheShape& shape);
  void check_memory(const EngineConfig& config);
  MemoryBudget used() const;
  std::string graph_counts() const;
  std::string pool_text(int n_blocks) const;

  ResponseStream accept(Request request, TimePoint submitted);
  std::vector<TokenId> prompt_ids(Request& request) const;
  int checked_max_tokens(const Request& request, int prompt_len) const;
  void check_size(const Request& request, int prompt_len, int max_tokens) const;
  std::unique_ptr<Sequence> make_sequence(const Request& request, const std::vector<TokenId>& ids, int max_tokens,
                                          std::uint64_t seed) const;

  const Tokenizer& tokenizer() const {
    if (!text_.tokenizer) throw no_tokenizer();
    return *text_.tokenizer;
  }
  const ChatPrompt& chat() const {
    if (!text_.chat)
      throw Error(ErrorCode::kInvalidArgument, "the model has no chat template (see --chat-template)", "messages");
    return *text_.chat;
  }

  // Built from top to bottom, released from bottom to top: thread, graphs, scratch, cache, model, device (S-30).
  Log log_;
  ModelInfo info_;
  ResolvedConfig resolved_;
  TextParts text_;
  RequestLimits limits_;
  Backend backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<BlockPool> pool_;
  std::optional<Reservation> scratch_;  ///< Given back after the graphs that write to it are gone (S-52).
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Metrics> metrics_;
  ModelConfig model_config_;
  std::chrono::microseconds spin_{0};
  std::int64_t outside_ = 0;  ///< Device memory in use before the weights came.
  int capacity_ = 0;          ///< Blocks that requests can have; does not change.
  std::atomic<std::int64_t> n_requests_{0};
  std::unique_ptr<Loop> loop_;
};

EngineImpl::EngineImpl(const EngineConfig& config, Log log, const std::function<bool()>& cancelled)
    : log_(std::move(log)) {
  const auto check_cancelled = [&] {
    if (cancelled && cancelled()) throw Error(ErrorCode::kCancelled, "loading was cancelled");
  };
  load(config, cancelled);
  check_cancelled();
  build_runner(config, cancelled);
  check_cancelled();
  start_loop(config);
}

void EngineImpl::load(const EngineConfig& config, const std::function<bool()>& cancelled) {
  const auto files = config.load_format == "dummy" ? open_dummy_model(config.model) : open_model(config.model);
  resolved_ = resolve_config(config, files->config());
  for (const std::string& warning : resolved_.warnings) log_.warning(warning);
  log_.info("model " + resolved_.model_name + ": " + files->summary());
  text_ = load_text_parts(*files, config.chat_template, log_);
  BackendOptions options{
      .device = config.device,
      .activation_dtype = config.activation_dtype == ActivationType::kBFloat16 ? DType::kBF16 : DType::kF32,
      .threads = config.threads,
      .pin_threads = config.pin_threads,
      .cpu_target = config.cpu_target,
      .gpu_target = config.gpu_target,
      .allow_untested_gpu = config.allow_untested_gpu};
  backend_ = make_backend(options, log_);
  model_config_ = files->config();
  check_block_size(resolved_.block_size, backend_.ops->needed_block_size());
  spin_ = std::chrono::microseconds(config.spin_us.value_or(default_spin_us(*backend_.device)));
  check_memory(config);
  int last_tenth = 0;
  model_ = load_model(*files, backend_, resolved_.max_seq_len, [&](std::int64_t done, std::int64_t total) {
    if (cancelled && cancelled()) throw Error(ErrorCode::kCancelled, "loading was cancelled");
    const int tenth = total > 0 ? static_cast<int>(10 * done / total) : 10;
    if (tenth > last_tenth) log_.info("loading weights: " + std::to_string(10 * tenth) + " %");
    last_tenth = std::max(last_tenth, tenth);
  });
  limits_ = {.vocab_size = model_->config().vocab_size,
             .max_seq_len = resolved_.max_seq_len,
             .has_tokenizer = text_.tokenizer != nullptr,
             .has_chat_template = text_.chat != nullptr};
  info_ = {.name = resolved_.model_name,
           .summary = files->summary(),
           .vocab_size = limits_.vocab_size,
           .max_seq_len = limits_.max_seq_len,
           .has_tokenizer = limits_.has_tokenizer,
           .has_chat_template = limits_.has_chat_template,
           .sampling_defaults = text_.defaults_json};
}

void EngineImpl::build_runner(const EngineConfig& config, const std::function<bool()>& cancelled) {
  const KvCacheShape shape = kv_shape();
  // On a device with memory of its own the pool's size is known only once the graphs' is: capture needs no more than
  // the scratch blocks, which come first (S-35).
  const bool own = backend_.device->memory().own;
  const std::int64_t host_limit = backend_.device->memory().free / 8;
  const KvPlan most =
      own ? largest_pool(config, shape) : plan_kv(config, resolved_, shape, host_limit, "1/8 of the available memory");
  const int n_scratch = resolved_.n_scratch_blocks;
  kv_ = std::make_unique<KvCache>(*backend_.device, shape, most.n_blocks, own ? 1 + n_scratch : most.n_blocks);
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(n_scratch));
  std::iota(scratch.begin(), scratch.end(), 1);
  make_runner_and_graphs(config, scratch, cancelled);
  if (own) grow_pool(config, shape);
  pool_ = std::make_unique<BlockPool>(kv_->n_blocks());
  // Without graphs nothing writes to scratch, and requests get its blocks. After a dirty capture there is no pool that
  // could give them to anyone (S-31).
  if (!runner_->captures().empty()) {
    scratch_ = Reservation::take(*pool_, n_scratch);
    CHECK(scratch_ && std::ranges::equal(scratch_->blocks(), scratch));  // a fresh pool gives its first blocks
  }
  runner_->limit_blocks(kv_->n_blocks());
  capacity_ = pool_->capacity();
  if (!own) log_.info("memory: " + to_text(used(), graph_counts(), pool_text(capacity_)));
}

/// Before the first allocation on a device with memory of its own: whether everything fits, and how it will be shared
/// out.
void EngineImpl::check_memory(const EngineConfig& config) {
  const DeviceMemory memory = backend_.device->memory();
  if (!memory.own) return;
  const KvCacheShape shape = kv_shape();
  check_room(config, memory_shape(), memory);
  outside_ = memory.total - memory.free;
  MemoryBudget budget = estimate_budget(resolved_, memory_shape());
  budget.outside = outside_;
  const std::int64_t limit = memory_limit(config, memory) - (budget.total() - budget.scratch);
  const KvPlan plan = plan_kv(config, resolved_, shape, limit, "what --memory-fraction leaves of the GPU's memory");
  const int capacity = plan.n_blocks - 1 - resolved_.n_scratch_blocks;
  budget.kv = capacity * shape.bytes_per_block();
  log_.info("memory budget: " + to_text(budget, "", pool_text(capacity)) + ", driver and others " +
            human_bytes(outside_) + ", in all " + human_bytes(budget.total()) + " of " + human_bytes(memory.total));
}

KvCacheShape EngineImpl::kv_shape() const {
  const ModelConfig& m = model_config_;
  return {.n_layers = m.n_layers,
          .n_kv_heads = m.n_kv_heads,
          .head_dim = m.head_dim,
          .block_size = resolved_.block_size,
          .dtype = backend_.ops->activation_dtype()};
}

MemoryShape EngineImpl::memory_shape() const {
  const auto workspace_bytes = [this](const WorkspaceShape& shape) { return backend_.ops->workspace_bytes(shape); };
  return {.model = model_config_, .kv = kv_shape(), .workspace_bytes = workspace_bytes};
}

KvPlan EngineImpl::largest_pool(const EngineConfig& config, const KvCacheShape& shape) const {
  return plan_kv(config, resolved_, shape, backend_.device->memory().total, "the GPU's memory");
}

void EngineImpl::make_runner_and_graphs(const EngineConfig& config, const std::vector<BlockId>& scratch,
                                        const std::function<bool()>& cancelled) {
  const ModelConfig& m = model_->config();
  const RunnerConfig runner{
      .enable_graphs = resolved_.graphs,
      .enable_prefill_graphs = resolved_.prefill_graphs,
      .prefill_buckets = resolved_.prefill_buckets,
      .decode_buckets = resolved_.decode_buckets,
      .max_rows = resolved_.max_rows,
      .max_seqs = resolved_.max_seqs,
      .max_seq_len = resolved_.max_seq_len,
      .max_eager_tokens = resolved_.chunked_prefill ? resolved_.chunk_size : resolved_.max_seq_len,
      .sampled_vocab = text_.tokenizer ? std::min(text_.tokenizer->vocab_size(), m.vocab_size) : 0,
      .block_size = resolved_.block_size,
      .skip_padding = config.skip_padding,
      .strict = config.strict_cuda_graph,
      .policy = config.prefill_graph_policy,
      .cancelled = cancelled,
      .groups = {{.tag = kv_->shape().group_tag}}};
  std::vector<GroupBlocks> groups;
  if (!scratch.empty()) groups.push_back({kv_->shape().group_tag, scratch});
  runner_ = make_runner(runner, *model_, backend_, kv_->layers(), std::move(groups), log_);
}

/// Everything else is in place and measured: the pool takes what remains.
void EngineImpl::grow_pool(const EngineConfig& config, const KvCacheShape& shape) {
  const DeviceMemory memory = backend_.device->memory();
  MemoryBudget budget = used();
  budget.outside = outside_;
  // What the driver counts beyond the parts (page sizes, kernels' own memory) belongs to the activations' share.
  budget.activations = memory.total - memory.free - (budget.total() - budget.activations);
  const std::int64_t limit = memory_limit(config, memory) - (budget.total() - budget.scratch);
  const std::int64_t more = memory.total - memory.free - outside_ - estimate_budget(resolved_, memory_shape()).total();
  DeviceMemory at_start = memory;
  at_start.free = memory.total - outside_;
  if (limit / shape.bytes_per_block() < least_blocks(resolved_)) check_room(config, memory_shape(), at_start, more);
  const KvPlan plan = plan_kv(config, resolved_, shape, limit, "what --memory-fraction leaves of the GPU's memory");
  const int capacity = plan.n_blocks - 1 - resolved_.n_scratch_blocks;
  budget.kv = capacity * shape.bytes_per_block();
  log_.info("memory: " + to_text(budget, graph_counts(), pool_text(capacity)) + ", driver and others " +
            human_bytes(budget.outside) + ", in all " + human_bytes(budget.total()) + " of " +
            human_bytes(memory.total));
  kv_->grow(plan.n_blocks);
}

/// What the parts say of themselves.
MemoryBudget EngineImpl::used() const {
  const std::int64_t block = kv_->shape().bytes_per_block();
  MemoryBudget budget;
  budget.weights = model_->weight_bytes();
  budget.activations = runner_->fixed_bytes();
  for (const auto& capture : runner_->captures()) budget.graphs += capture.bytes;
  budget.scratch = block * (1 + resolved_.n_scratch_blocks);
  budget.kv = block * capacity_;
  return budget;
}

std::string EngineImpl::graph_counts() const {
  int n_decode = 0, n_extend = 0;
  for (const auto& capture : runner_->captures()) ++(capture.family == "decode" ? n_decode : n_extend);
  return "(" + std::to_string(n_extend) + " extend, " + std::to_string(n_decode) + " decode)";
}

std::string EngineImpl::pool_text(int n_blocks) const {
  return std::to_string(n_blocks) + " blocks, " + std::to_string(std::int64_t{n_blocks} * resolved_.block_size) +
         " tokens";
}

void EngineImpl::start_loop(const EngineConfig& config) {
  metrics_ = std::make_unique<Metrics>(resolved_.model_name, resolved_.block_size);
  LoopConfig loop{.scheduler = {.chunk_size = resolved_.chunk_size,
                                .chunked_prefill = resolved_.chunked_prefill,
                                .max_rows = resolved_.max_rows,
                                .max_seqs = resolved_.max_seqs,
                                .block_size = resolved_.block_size,
                                .prefix_cache = resolved_.prefix_cache,
                                .vocab_size = limits_.vocab_size,
                                .position_factor = model_->config().position_factor},
                  .max_queue = resolved_.max_queue,
                  .spin = spin_,
                  .position_factor = model_->config().position_factor,
                  .audit = config.audit,
                  .step_log = config.step_log};
  loop_ = std::make_unique<Loop>(std::move(loop), *runner_, *pool_, *metrics_, log_);
}

ResponseStream EngineImpl::submit(Request request) {
  const TimePoint submitted = Clock::now();
  try {
    return accept(std::move(request), submitted);
  } catch (const Error& e) {
    metrics_->count_refused(e.code() == ErrorCode::kTryLater);
    throw;
  }
}

ResponseStream EngineImpl::accept(Request request, TimePoint submitted) {
  check_request(request, limits_);
  std::vector<TokenId> ids = prompt_ids(request);
  check_prompt_ids(ids, request.chat ? "messages" : "prompt", limits_);
  const int prompt_len = static_cast<int>(ids.size());
  const int max_tokens = checked_max_tokens(request, prompt_len);
  check_size(request, prompt_len, max_tokens);
  const std::uint64_t seed = request.sampling.seed.value_or(random_seed());
  if (request.id.empty()) request.id = "request-" + std::to_string(++n_requests_);

  auto state = std::make_shared<RequestState>(request.n);
  auto channel = std::make_shared<Channel>(spin_);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < request.n; ++i) {
    auto sequence = make_sequence(request, ids, max_tokens, seed + static_cast<std::uint64_t>(i));
    sequence->index = i;
    sequence->request = state;
    sequence->channel = channel;
    sequence->submitted = submitted;
    if (request.deadline) sequence->deadline = submitted + *request.deadline;
    sequences.push_back(std::move(sequence));
  }
  auto response = std::make_unique<Response>(request.id, std::move(ids), seed, request.sampling, request.n,
                                             text_.tokenizer, channel, state);
  loop_->submit(std::move(sequences));
  return ResponseStream(std::move(response));
}

std::vector<TokenId> EngineImpl::prompt_ids(Request& request) const {
  if (request.chat) return chat().encode(*request.chat);
  if (request.prompt) return tokenizer().encode(*request.prompt);
  return std::move(request.prompt_ids);
}

/// What depends on the prompt's length.
void EngineImpl::check_size(const Request& request, int prompt_len, int max_tokens) const {
  const int needed = (prompt_len + max_tokens - 1 + resolved_.block_size - 1) / resolved_.block_size;
  if (needed > capacity_)
    throw Error(ErrorCode::kInvalidArgument,
                "prompt of " + std::to_string(prompt_len) + " tokens and " + std::to_string(max_tokens) +
                    " output tokens need " + std::to_string(needed) + " KV blocks, the cache has " +
                    std::to_string(capacity_),
                "max_tokens");
  if (request.n > resolved_.max_queue)
    throw Error(ErrorCode::kInvalidArgument,
                "n " + std::to_string(request.n) + ": the queue holds " + std::to_string(resolved_.max_queue), "n");
}

/// What fits behind the prompt: in tokens, and in positions where the request chose them.
int EngineImpl::checked_max_tokens(const Request& request, int prompt_len) const {
  int room = limits_.max_seq_len - prompt_len;
  const int factor = model_->config().position_factor;
  if (factor > 0 && request.position_ids)
    room = std::min(room, limits_.max_seq_len - check_position_ids(*request.position_ids, prompt_len, factor, limits_));
  return std::min(request.sampling.max_tokens, room);
}

std::unique_ptr<Sequence> EngineImpl::make_sequence(const Request& request, const std::vector<TokenId>& ids,
                                                    int max_tokens, std::uint64_t seed) const {
  auto sequence = std::make_unique<Sequence>();
  sequence->request_id = request.id;
  sequence->tokens.reserve(ids.size() + static_cast<std::size_t>(max_tokens));
  sequence->tokens = ids;
  sequence->prompt_len = static_cast<int>(ids.size());
  sequence->sampling = slot_sampling(request.sampling, seed);
  for (const auto& [id, value] : request.sampling.logit_bias) sequence->bias.push_back({id, value});
  sequence->end_ids = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos)
    sequence->end_ids.insert(sequence->end_ids.end(), text_.end_of_generation.begin(), text_.end_of_generation.end());
  std::ranges::sort(sequence->end_ids);
  sequence->end_ids.erase(std::unique(sequence->end_ids.begin(), sequence->end_ids.end()), sequence->end_ids.end());
  sequence->min_tokens = request.sampling.min_tokens;
  sequence->max_tokens = max_tokens;
  sequence->salt = request.cache_salt;
  if (request.position_ids && model_->config().position_factor > 0) {
    sequence->position_ids = *request.position_ids;
    sequence->last_position = *std::ranges::max_element(sequence->position_ids);
  }
  return sequence;
}

}  // namespace

std::unique_ptr<Engine> Engine::load(const EngineConfig& config, std::function<void(int level, std::string_view)> log,
                                     const std::function<bool()>& cancelled) {
  LogSink sink;
  if (log) sink = [log = std::move(log)](LogLevel level, std::string_view line) { log(static_cast<int>(level), line); };
  return std::make_unique<EngineImpl>(config, Log(std::move(sink)), cancelled);
}

}  // namespace monograph
