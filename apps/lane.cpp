#include "lane.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "graph/ladder.h"

namespace monograph::app {
namespace {

constexpr int kDefaultMaxSeqLen = 8192, kDefaultChunk = 2048, kDefaultMaxRows = 64;

BackendOptions backend_options(const EngineConfig& c) {
  BackendOptions options;
  options.device = c.device;
  options.activation_dtype = c.activation_dtype == ActivationType::kFloat32 ? DType::kF32 : DType::kBF16;
  options.threads = c.threads;
  options.pin_threads = c.pin_threads;
  options.cpu_target = c.cpu_target;
  options.gpu_target = c.gpu_target;
  options.allow_untested_gpu = c.allow_untested_gpu;
  return options;
}

RunnerConfig make_runner_config(const EngineConfig& c, const ModelConfig& model) {
  RunnerConfig r;
  r.enable_graphs = c.enable_cuda_graph.value_or(true);
  r.enable_prefill_graphs = c.enable_prefill_cuda_graph.value_or(r.enable_graphs);
  r.max_seq_len = c.max_seq_len.value_or(std::min(model.max_position, kDefaultMaxSeqLen));
  r.max_seqs = c.max_seqs;
  r.max_rows = c.prefill_cuda_graph_max_requests.value_or(std::min(c.max_seqs, kDefaultMaxRows));
  r.block_size = c.block_size;
  r.skip_padding = c.skip_padding;
  r.strict = c.strict_cuda_graph;
  r.policy = c.prefill_graph_policy;
  r.time_steps = true;
  const auto& prefill = c.prefill_capture_buckets;
  const auto& decode = c.decode_capture_buckets;
  r.prefill_buckets = prefill.empty() ? default_ladder(c.chunk_size.value_or(kDefaultChunk), r.max_seq_len)
                                      : check_ladder(prefill, r.max_seq_len, "--prefill-cuda-graph-capture-config");
  r.decode_buckets = decode.empty() ? default_decode_ladder(c.max_seqs)
                                    : check_ladder(decode, c.max_seqs, "--decode-cuda-graph-capture-config");
  return r;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

KvCacheShape cache_shape(const ModelConfig& model, const Ops& ops, int block_size) {
  KvCacheShape shape;
  shape.n_layers = model.n_layers;
  shape.n_kv_heads = model.n_kv_heads;
  shape.head_dim = model.head_dim;
  shape.block_size = block_size;
  shape.dtype = ops.activation_dtype();
  return shape;
}

}  // namespace

std::unique_ptr<ModelFiles> open_files(const EngineConfig& config) {
  return config.load_format == "dummy" ? open_dummy_model(config.model) : open_model(config.model);
}

Lane::Lane(const EngineConfig& config, int n_sequences, const Log& log, bool measure_buckets)
    : files_(open_files(config)),
      backend_(make_backend(backend_options(config), log)),
      runner_config_(make_runner_config(config, files_->config())) {
  runner_config_.measure_buckets = measure_buckets;
  const RunnerConfig& r = runner_config_;
  model_ = load_model(*files_, backend_, r.max_seq_len, {});
  const int largest = std::max(r.prefill_buckets.back(), r.decode_buckets.back());
  const int n_scratch = ceil_div(std::min(largest, r.max_seq_len), r.block_size);
  const int n_blocks = 1 + n_sequences * ceil_div(r.max_seq_len, r.block_size) + n_scratch;
  cache_ =
      std::make_unique<KvCache>(*backend_.device, cache_shape(files_->config(), *backend_.ops, r.block_size), n_blocks);
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(n_scratch));
  std::iota(scratch.begin(), scratch.end(), n_blocks - n_scratch);
  runner_ = make_runner(r, *model_, backend_, cache_->layers(), {{"full", scratch}}, log);
}

Batch Lane::batch(int n_rows, int n_tokens, int prefix, bool prefill) const {
  constexpr unsigned kSeed = 1;
  std::mt19937 random(kSeed);
  const int blocks_per_row = ceil_div(runner_config_.max_seq_len, runner_config_.block_size);
  const int blocks_used = ceil_div(prefix + n_tokens, runner_config_.block_size);
  Batch batch;
  const int factor = files_->config().position_factor;
  if (factor > 0) batch.position_ids.emplace();
  for (int row = 0; row < n_rows; ++row) {
    BatchRow r;
    r.n_tokens = n_tokens;
    r.prefix = prefix;
    r.prefill = prefill;
    r.block_tables.emplace_back(static_cast<std::size_t>(blocks_used));
    std::iota(r.block_tables[0].begin(), r.block_tables[0].end(), 1 + row * blocks_per_row);
    r.sampling.samples = 1;
    r.sampling.history_row = row;
    r.sampling.prompt_len = prefix + n_tokens;
    batch.rows.push_back(std::move(r));
    for (int t = 0; t < n_tokens * factor; ++t) batch.position_ids->push_back(prefix + t / factor);
    for (int t = 0; t < n_tokens; ++t)
      batch.input_ids.push_back(
          static_cast<std::int32_t>(random() % static_cast<unsigned>(files_->config().vocab_size)));
  }
  return batch;
}

}  // namespace monograph::app
