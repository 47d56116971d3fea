// Times every op of a small model's forward on the CPU backend, without a model file: random weights of one type.
//   bench_ops [type=Q4_1] [threads=0] [target=""] [mode=float32|bfloat16] [clock=wall|cpu]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "ops/backend.h"
#include "ops/ops.h"

namespace monograph {
namespace {

// SmolLM2-135M.
constexpr int kE = 576, kF = 1536, kLayers = 30, kHeads = 9, kKv = 3, kDim = 64, kVocab = 49152;
constexpr int kMaxTokens = 512, kContext = 1024, kBlock = 64, kWidth = kContext / kBlock;

DType parse_type(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::kQ6_K); ++i)
    if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  std::fprintf(stderr, "unknown type %s\n", name.c_str());
  std::exit(1);
}

std::unique_ptr<PackedMatrix> random_matrix(Ops& ops, DType dtype, int rows, int cols, MatrixRole role) {
  static std::mt19937 random(1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(row_bytes(dtype, cols) * rows));
  // Every 16-bit pattern below 0x3000 is a small finite number in F16 and BF16, and harmless elsewhere.
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    bytes[i] = static_cast<std::byte>(random());
    bytes[i + 1] = static_cast<std::byte>(random() % 0x30);
  }
  const MatrixPart part{dtype, rows, cols, bytes, {}};
  return ops.pack({&part, 1}, role);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// On a busy machine the time a single thread really ran says more.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Layer {
  std::unique_ptr<PackedMatrix> qkv, out, gate_up, down;
  Buffer k, v;
};

class Forward {
 public:
  Forward(Backend& backend, DType dtype) : backend_(backend), layout_(shape()) {
    Ops& ops = *backend.ops;
    Device& device = *backend.device;
    const DType head_type = block_weights(dtype) == 256 ? DType::kQ6_K : is_quantised(dtype) ? DType::kQ8_0 : dtype;
    embedding_ = random_matrix(ops, kE % block_weights(head_type) ? DType::kQ8_0 : head_type, kVocab, kE,
                               MatrixRole::kEmbedding);
    const DType wide = kE % block_weights(dtype) ? DType::kQ8_0 : dtype;
    const std::int64_t cache = std::int64_t{kWidth + 1} * kKv * kBlock * kDim * 4;
    for (int i = 0; i < kLayers; ++i)
      layers_.push_back({random_matrix(ops, wide, (kHeads + 2 * kKv) * kDim, kE, MatrixRole::kQkv),
                         random_matrix(ops, wide, kE, kE, MatrixRole::kPlain),
                         random_matrix(ops, wide, 2 * kF, kE, MatrixRole::kGateUp),
                         random_matrix(ops, dtype, kE, kF, MatrixRole::kPlain), device.allocate(cache),
                         device.allocate(cache)});
    ones_.assign(kContext * kDim, 1.0f);
    for (auto* buffer : {&area_, &host_}) *buffer = device.allocate(layout_.bytes);
    derived_ = device.allocate(4 * 8 * kMaxTokens);
    history_ = device.allocate(4 * kContext + 64);
    x_ = device.allocate(std::int64_t{4} * kMaxTokens * kE);
    q_ = device.allocate(std::int64_t{4} * kMaxTokens * kE);
    attn_ = device.allocate(std::int64_t{4} * kMaxTokens * kE);
    ffn_ = device.allocate(std::int64_t{4} * kMaxTokens * kF);
    logits_ = device.allocate(std::int64_t{4} * kVocab);
  }

  std::int64_t weight_bytes() const {
    std::int64_t n = embedding_->bytes();
    for (const Layer& l : layers_) n += l.qkv->bytes() + l.out->bytes() + l.gate_up->bytes() + l.down->bytes();
    return n;
  }

  void set_clock(double (*now)()) { now_ = now; }

  /// Seconds of one step, and of each op in it.
  double run(int n_tokens, int prefix, std::map<std::string, double>& by_op) {
    stage(n_tokens, prefix);
    const StepInputs in = inputs(n_tokens);
    Ops& ops = *backend_.ops;
    const DType type = ops.activation_dtype();
    const Tensor<2> x{x_.data(), type, {n_tokens, kE}}, ffn{ffn_.data(), type, {n_tokens, kF}};
    const Tensor<3> q{q_.data(), type, {n_tokens, kHeads, kDim}}, attn{attn_.data(), type, {n_tokens, kHeads, kDim}};
    const Tensor<2> attn_rows{attn_.data(), type, {n_tokens, kE}};
    const View<const float, 1> norm{ones_.data(), {kE}};
    QkvWeights w;
    w.norm = norm;
    RopeTable rope;
    rope.rotary_dim = kDim;
    rope.cos = rope.sin = {ones_.data(), {kContext, kDim / 2}};
    double total = 0;
    const auto timed = [&](const char* name, auto work) {
      const double begin = now_();
      work();
      const double s = now_() - begin;
      by_op[name] += s;
      total += s;
    };
    const void* const from[2] = {host_.data(), host_.data()};
    static const std::int32_t selector = 0;
    timed("inputs", [&] {
      ops.fetch_inputs(area_.data(), from, &selector, layout_, shape(), n_tokens);
      ops.derive_inputs(in);
    });
    timed("embed", [&] { ops.embed(x, *embedding_, {}, in); });
    for (Layer& layer : layers_) {
      const KvLayer kv{layer.k.data(), layer.v.data(), type, kWidth + 1, kBlock, kKv, kDim, 0};
      w.qkv = layer.qkv.get();
      timed("project_qkv", [&] { ops.project_qkv(q, kv, x, w, rope, 1e-5f, in); });
      timed("attend", [&] { ops.attend(attn, q, kv, 0.125f, in); });
      timed("add_project out", [&] { ops.add_project(x, attn_rows, *layer.out, {}, in); });
      timed("gated_up", [&] { ops.gated_up(ffn, x, norm, 1e-5f, *layer.gate_up, in); });
      timed("add_project down", [&] { ops.add_project(x, ffn, *layer.down, {}, in); });
    }
    const View<float, 2> logits{logits_.as<float>(), {1, kVocab}};
    timed("head_logits", [&] { ops.head_logits(logits, x, norm, 1e-5f, *embedding_, in); });
    timed("sample", [&] { ops.sample(&sampled_, {logits.data, logits.shape}, kVocab, in); });
    return total;
  }

 private:
  static InputShape shape() {
    InputShape s;
    s.max_tokens = kMaxTokens;
    s.max_rows = 1;
    s.table_width = kWidth;
    s.max_seqs = 1;
    s.max_seq_len = kContext;
    return s;
  }
  void stage(int n_tokens, int prefix) {
    auto* base = host_.as<std::byte>();
    const auto ints = [&](std::int64_t at) { return reinterpret_cast<std::int32_t*>(base + at); };
    *ints(layout_.n_tokens) = ints(layout_.input_lengths)[0] = n_tokens;
    ints(layout_.prefix_lengths)[0] = prefix;
    *ints(layout_.n_seqs) = 1;
    for (int i = 0; i < kWidth; ++i) ints(layout_.block_tables)[i] = i + 1;
    auto* sampling = reinterpret_cast<SlotSampling*>(base + layout_.sampling);
    sampling[0] = sampling[1] = SlotSampling{};
    sampling[0].samples = 1;
  }
  StepInputs inputs(int n_tokens) {
    StepInputs in;
    in.shape = shape();
    in.capacity = n_tokens;
    const auto* base = area_.as<std::byte>();
    const auto ints = [&](std::int64_t at) { return reinterpret_cast<const std::int32_t*>(base + at); };
    in.n_tokens = ints(layout_.n_tokens);
    in.n_seqs = ints(layout_.n_seqs);
    in.input_ids = ints(layout_.input_ids);
    in.input_lengths = ints(layout_.input_lengths);
    in.prefix_lengths = ints(layout_.prefix_lengths);
    in.block_tables = ints(layout_.block_tables);
    in.sampling = reinterpret_cast<const SlotSampling*>(base + layout_.sampling);
    std::int32_t* next = derived_.as<std::int32_t>();
    for (std::int32_t** array : {&in.cu_seqlens, &in.cu_kv_seqlens, &in.kv_lens, &in.sample_rows, &in.padding_offset,
                                 &in.positions, &in.kv_locs}) {
      *array = next;
      next += kMaxTokens;
    }
    in.history.ids = history_.as<std::int32_t>() + 16;
    in.history.lens = history_.as<std::int32_t>();
    return in;
  }

  double (*now_)() = wall_seconds;
  Backend& backend_;
  StagingLayout layout_;
  std::unique_ptr<PackedMatrix> embedding_;
  std::vector<Layer> layers_;
  std::vector<float> ones_;
  Buffer area_, host_, derived_, history_, x_, q_, attn_, ffn_, logits_;
  SampledRow sampled_;
};

void report(Forward& forward, const char* name, int n_tokens, int prefix, int rounds) {
  std::map<std::string, double> best;
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    std::map<std::string, double> by_op;
    least = std::min(least, forward.run(n_tokens, prefix, by_op));
    for (auto& [op, s] : by_op) best[op] = best.count(op) ? std::min(best[op], s) : s;
  }
  std::printf("%s: %d tokens after %d: %.2f ms, %.1f tokens/s (best of %d)\n", name, n_tokens, prefix, least * 1e3,
              n_tokens / least, rounds);
  for (auto& [op, s] : best) std::printf("  %-18s %9.3f ms\n", op.c_str(), s * 1e3);
}

int run(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  BackendOptions options;
  options.threads = std::stoi(argument(2, "0"));
  options.cpu_target = argument(3, "");
  options.activation_dtype = argument(4, "float32") == "bfloat16" ? DType::kBF16 : DType::kF32;
  Backend backend = make_backend(options, Log(stderr_sink()));
  const bool cpu_clock = argument(5, "wall") == "cpu";
  Forward forward(backend, parse_type(argument(1, "Q4_1")));
  if (cpu_clock) forward.set_clock(cpu_seconds);
  std::printf("weights: %.1f MB\n", forward.weight_bytes() / 1e6);
  report(forward, "decode", 1, 200, 30);
  report(forward, "decode", 1, 1000, 10);
  report(forward, "prefill", 16, 0, 10);
  report(forward, "prefill", 128, 0, 5);
  report(forward, "prefill", 512, 0, 5);
  return 0;
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) { return monograph::run(argc, argv); }
