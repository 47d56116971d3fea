// Device time of prefill and decode through the lane, for public model shapes with random weights: graph and eager
// beside the floor of the hardware.   lane_bench DEVICE SHAPE REPETITIONS T1,T2,...
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "graph/ladder.h"
#include "graph/runner.h"
#include "monograph/error.h"

namespace monograph {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBytesPerUs = 4.55e6, kFlopsPerUs = 790e6;  // an H200: read bandwidth and dense bf16 rate, measured

ModelConfig shape_of(const std::string& name) {
  ModelConfig c;
  c.family = ModelFamily::kQwen3;
  c.name = name;
  c.norm_eps = 1e-6f;
  c.rope.theta = 1e6f;
  c.max_position = 40960;
  const auto set = [&](int e, int f, int layers, int heads, int kv_heads, int dim, int vocab, bool tied, bool qk_norm) {
    c.model_dim = e, c.ffn_dim = f, c.n_layers = layers, c.n_heads = heads, c.n_kv_heads = kv_heads, c.head_dim = dim;
    c.vocab_size = vocab, c.tied_head = tied, c.qk_norm = qk_norm, c.rope.rotary_dim = dim;
    c.attention_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  };
  if (name == "qwen3-0.6b")
    set(1024, 3072, 28, 16, 8, 128, 151936, true, true);
  else if (name == "qwen3-1.7b")
    set(2048, 6144, 28, 16, 8, 128, 151936, true, true);
  else if (name == "qwen3-8b")
    set(4096, 12288, 36, 32, 8, 128, 151936, false, true);
  else if (name == "llama-3.2-1b")
    set(2048, 8192, 16, 32, 8, 64, 128256, true, false);
  else if (name == "smollm2-135m")
    set(576, 1536, 30, 9, 3, 64, 49152, true, false);
  else
    throw Error(ErrorCode::kInvalidArgument, "shape " + name + ": unknown");
  return c;
}

/// Random bf16 tensors of the right shapes. Layers share their source values; each is packed into memory of its own.
class RandomFiles : public ModelFiles {
 public:
  explicit RandomFiles(ModelConfig config) : config_(std::move(config)) {
    const std::int64_t most = static_cast<std::int64_t>(config_.vocab_size) * config_.model_dim;
    values_.resize(static_cast<std::size_t>(most));
    std::minstd_rand random(1);
    for (auto& v : values_)
      v = static_cast<std::uint16_t>(((random() & 1) << 15) | (0x3c00 + (random() & 0xff)));  // +-0.008..0.03
    ones_.assign(static_cast<std::size_t>(std::max(config_.model_dim, config_.head_dim)), 0x3f80);
  }
  const ModelConfig& config() const override { return config_; }
  const TokenizerFiles& tokenizer() const override { return tokenizer_; }
  const GenerationDefaults& generation() const override { return generation_; }
  bool has(LayerTensor, int) const override { return true; }
  bool permute_qk() const override { return false; }
  void release(const HostTensor&) const override {}
  std::int64_t file_bytes() const override { return 1; }
  std::string summary() const override { return config_.name; }
  HostTensor tensor(ModelTensor which) const override {
    if (which == ModelTensor::kFinalNorm) return vector(config_.model_dim);
    return matrix(config_.vocab_size, config_.model_dim);
  }
  HostTensor tensor(LayerTensor which, int) const override {
    const int q = config_.n_heads * config_.head_dim, kv = config_.n_kv_heads * config_.head_dim;
    switch (which) {
      case LayerTensor::kQ:
        return matrix(q, config_.model_dim);
      case LayerTensor::kK:
      case LayerTensor::kV:
        return matrix(kv, config_.model_dim);
      case LayerTensor::kAttnOut:
        return matrix(config_.model_dim, q);
      case LayerTensor::kGate:
      case LayerTensor::kUp:
        return matrix(config_.ffn_dim, config_.model_dim);
      case LayerTensor::kDown:
        return matrix(config_.model_dim, config_.ffn_dim);
      case LayerTensor::kQNorm:
      case LayerTensor::kKNorm:
        return vector(config_.head_dim);
      default:
        return vector(config_.model_dim);
    }
  }

 private:
  HostTensor matrix(int rows, int cols) const {
    return {"matrix",
            DType::kBF16,
            {rows, cols},
            std::as_bytes(std::span(values_).first(static_cast<std::size_t>(rows) * cols))};
  }
  HostTensor vector(int n) const { return {"vector", DType::kBF16, {n}, std::as_bytes(std::span(ones_).first(n))}; }
  ModelConfig config_;
  std::vector<std::uint16_t> values_, ones_;
  TokenizerFiles tokenizer_;
  GenerationDefaults generation_;
};

/// max(all bytes / bandwidth, all operations / rate) of one prompt of T tokens without prefix, head on the last row.
double floor_us(const ModelConfig& c, double t) {
  const double e = c.model_dim, d = c.head_dim, h = c.n_heads, k = c.n_kv_heads, f = c.ffn_dim, v = c.vocab_size,
               layers = c.n_layers;
  const double per_layer = e * (h + 2 * k) * d + h * d * e + 3 * e * f;
  const double bytes = 2 * (layers * per_layer + v * e) + 2 * 2 * layers * k * d * t * 2;
  const double flops = 2 * t * layers * per_layer + 2 * v * e + layers * 2 * t * t * h * d;
  return std::max(bytes / kBytesPerUs, flops / kFlopsPerUs);
}

struct Quantiles {
  double p10, p50, p99;
};
template <typename Work>
Quantiles time_us(int repetitions, const Work& work) {
  std::vector<double> us;
  for (int i = 0; i < repetitions + 3; ++i) {
    const auto start = Clock::now();
    work();
    const std::chrono::duration<double, std::micro> one = Clock::now() - start;
    if (i >= 3) us.push_back(one.count());
  }
  std::sort(us.begin(), us.end());
  return {us[us.size() / 10], us[us.size() / 2], us[us.size() * 99 / 100]};
}

/// Times are host times around one step: staging, launch, and waiting for the sampled token.
void write_result(int argc, char** argv, const std::string& device, const nlohmann::json& rows) {
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i ? " " : "") + std::string(argv[i]);
  const nlohmann::json result = {{"command", command},
                                 {"device", device},
                                 {"model", argv[2]},
                                 {"bw_tb_s", kBytesPerUs / 1e6},
                                 {"tflop_s", kFlopsPerUs / 1e6},
                                 {"repetitions", std::atoi(argv[3])},
                                 {"rows", rows}};
  std::ofstream(argv[5]) << result.dump(1) << "\n";
}

int run(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "usage: lane_bench DEVICE SHAPE REPETITIONS T1,T2,... [RESULT.json]\n");
    return 2;
  }
  const int repetitions = std::atoi(argv[3]);
  std::vector<int> lengths;
  for (std::stringstream list(argv[4]); list.good();) {
    std::string one;
    std::getline(list, one, ',');
    lengths.push_back(std::atoi(one.c_str()));
  }
  const ModelConfig config = shape_of(argv[2]);
  BackendOptions options;
  options.device = argv[1];
  options.activation_dtype = DType::kBF16;
  Backend backend = make_backend(options, Log(stderr_sink()));
  const int longest = *std::max_element(lengths.begin(), lengths.end());
  RunnerConfig runner_config;
  runner_config.max_seq_len = longest + 64;
  runner_config.max_seqs = 64;
  runner_config.max_rows = 64;
  runner_config.prefill_buckets = default_ladder(longest, longest + 64);
  runner_config.decode_buckets = default_decode_ladder(64);
  auto start = Clock::now();
  const auto lap = [&](const char* what) {
    std::printf("# %s: %.2f s, free %.2f GB\n", what, std::chrono::duration<double>(Clock::now() - start).count(),
                static_cast<double>(backend.device->memory().free) / 1e9);
    start = Clock::now();
  };
  const RandomFiles files(config);
  lap("random weights");
  const auto model = load_model(files, backend, runner_config.max_seq_len, {});
  lap("load");
  KvCacheShape shape;
  shape.n_layers = config.n_layers;
  shape.n_kv_heads = config.n_kv_heads;
  shape.head_dim = config.head_dim;
  shape.dtype = DType::kBF16;
  const int per_sequence = runner_config.max_seq_len / 64 + 1, n_scratch = (longest + 63) / 64;
  const int n_blocks = 1 + 2 * per_sequence + n_scratch;
  KvCache cache(*backend.device, shape, n_blocks);
  std::vector<GroupBlocks> scratch{{"full", {}}};
  for (int i = 0; i < n_scratch; ++i) scratch[0].blocks.push_back(n_blocks - 1 - i);
  auto runner = make_runner(runner_config, *model, backend, cache.layers(), scratch, Log(stderr_sink()));
  lap("capture");
  std::printf(
      "| model | tokens | bucket | graph us p50 | p10 | p99 | eager us | floor us | %% of floor "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  nlohmann::json rows = nlohmann::json::array();
  for (int t : lengths) {
    Batch batch;
    std::minstd_rand random(7);
    for (int i = 0; i < t; ++i) batch.input_ids.push_back(static_cast<std::int32_t>(random() % config.vocab_size));
    batch.rows.resize(1);
    BatchRow& row = batch.rows[0];
    row.n_tokens = t;
    row.prefill = true;
    row.block_tables.emplace_back();
    for (int i = 0; i < (t + 63) / 64; ++i) row.block_tables[0].push_back(1 + i);
    row.sampling.samples = 1;
    int bucket = 0;
    const Quantiles graph = time_us(repetitions, [&] { bucket = runner->run(batch).bucket; });
    const Quantiles eager = time_us(std::max(3, repetitions / 5), [&] { runner->run_eager(batch); });
    const double floor = floor_us(config, t);
    std::printf("| %s | %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", config.name.c_str(), t, bucket,
                graph.p50, graph.p10, graph.p99, eager.p50, floor, 100 * floor / graph.p50);
    std::fflush(stdout);
    rows.push_back({{"tokens", t},
                    {"bucket", bucket},
                    {"graph_us", graph.p50},
                    {"graph_us_p10", graph.p10},
                    {"graph_us_p99", graph.p99},
                    {"eager_us", eager.p50},
                    {"floor_us", floor},
                    {"percent_of_floor", 100 * floor / graph.p50}});
    if (t != lengths.back()) continue;
    batch.input_ids.resize(1);
    row.n_tokens = 1;
    row.prefix = std::min(512, t - 1);
    row.prefill = false;
    const Quantiles decode = time_us(repetitions, [&] { bucket = runner->run(batch).bucket; });
    std::printf("| %s | decode at %d | %d | %.1f | %.1f | %.1f | | %.1f | %.1f |\n", config.name.c_str(), row.prefix,
                bucket, decode.p50, decode.p10, decode.p99, floor_us(config, 1),
                100 * floor_us(config, 1) / decode.p50);
  }
  if (argc == 6) write_result(argc, argv, backend.device->description(), rows);
  return 0;
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) {
  try {
    return monograph::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lane_bench: %s\n", e.what());
    return 1;
  }
}
