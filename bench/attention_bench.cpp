// Times attention on a GPU, one graph of many launches over changing layers, so that K and V come from memory as in a
// forward.   attention_bench [repeats=10]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "tests/ops/support/step.h"

namespace monograph {
namespace {

struct Case {
  const char* model;
  int n_heads, n_kv_heads, dim;
  int n_seqs, n_tokens, prefix;  // of each sequence
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void fill(Device& device, void* to, std::int64_t bytes) {
  static const std::vector<bf16> pattern = [] {
    std::mt19937_64 random(1);
    std::vector<bf16> values;
    for (float value : test::random_floats(random, 8 << 20)) values.push_back(to_bf16(value));
    return values;
  }();
  const auto size = static_cast<std::int64_t>(2 * pattern.size());
  for (std::int64_t at = 0; at < bytes; at += size)
    device.copy_to_device(static_cast<std::byte*>(to) + at, pattern.data(), std::min(size, bytes - at));
  device.synchronize();
}

/// Median time of one launch in microseconds.
double time_case(const Case& c, int repeats) {
  BackendOptions options;
  options.device = "cuda";
  options.activation_dtype = DType::kBF16;
  Backend backend = make_backend(options, Log());
  Device& device = *backend.device;
  const int capacity = c.n_seqs * c.n_tokens, n_keys = c.prefix + c.n_tokens, width = (n_keys + 63) / 64;
  WorkspaceShape shape;
  shape.max_tokens = capacity;
  shape.max_rows = c.n_seqs;
  shape.model_dim = shape.ffn_dim = shape.vocab_size = 64;
  shape.n_heads = c.n_heads;
  shape.n_kv_heads = c.n_kv_heads;
  shape.head_dim = c.dim;
  backend.ops->reserve(shape);
  InputShape inputs;
  inputs.max_tokens = capacity;
  inputs.max_rows = c.n_seqs;
  inputs.table_width = std::max(width, 128);
  inputs.max_seqs = 1;
  inputs.max_seq_len = 64 * inputs.table_width;

  const int n_blocks = c.n_seqs * width + 1;
  const std::int64_t side = std::int64_t{2} * 64 * c.n_kv_heads * c.dim * n_blocks;
  const int n_layers = static_cast<int>(std::clamp<std::int64_t>((256 << 20) / (2 * side), 1, 28));
  std::vector<Buffer> buffers;
  std::vector<KvLayer> layers(static_cast<std::size_t>(n_layers));
  for (KvLayer& layer : layers) {
    for (void** half : {&layer.k, &layer.v}) {
      buffers.push_back(device.allocate(side));
      *half = buffers.back().data();
      fill(device, *half, side);
    }
    layer.dtype = DType::kBF16;
    layer.n_blocks = n_blocks;
    layer.n_kv_heads = c.n_kv_heads;
    layer.head_dim = c.dim;
  }
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(n_blocks) - 1);
  std::iota(blocks.begin(), blocks.end(), 1);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(2));
  std::vector<test::Row> rows(static_cast<std::size_t>(c.n_seqs));
  for (int i = 0; i < c.n_seqs; ++i) {
    rows[i].n_tokens = c.n_tokens;
    rows[i].prefix = c.prefix;
    rows[i].ids.assign(static_cast<std::size_t>(c.n_tokens), 0);
    rows[i].table.assign(blocks.begin() + i * width, blocks.begin() + (i + 1) * width);
  }
  test::Step step(backend, inputs);
  const StepInputs& in = step.run(rows, capacity);
  const std::int64_t bytes = std::int64_t{2} * capacity * c.n_heads * c.dim;
  const Buffer q = device.allocate(bytes), out = device.allocate(bytes);
  fill(device, q.data(), bytes);
  const std::array<int, 3> extents{capacity, c.n_heads, c.dim};
  const auto attend = [&](int i) {
    backend.ops->attend({out.data(), DType::kBF16, extents}, {q.data(), DType::kBF16, extents}, layers[i % n_layers],
                        1.0f / std::sqrt(static_cast<float>(c.dim)), in);
  };
  attend(0);
  constexpr int kLaunches = 140;
  const auto graph = device.capture([&] {
    for (int i = 0; i < kLaunches; ++i) attend(i);
  });
  std::vector<double> times;
  for (int i = 0; i < repeats + 2; ++i) {
    const double start = seconds();
    graph->replay();
    device.synchronize();
    if (i >= 2) times.push_back((seconds() - start) / kLaunches * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void print_case(const Case& c, int repeats) {
  const double us = time_case(c, repeats), n_keys = c.prefix + c.n_tokens;
  const double pairs = c.n_seqs * (double(c.n_tokens) * c.prefix + double(c.n_tokens) * (c.n_tokens + 1) / 2);
  const double flop = 4 * pairs * c.n_heads * c.dim, bytes = c.n_seqs * n_keys * 4 * c.n_kv_heads * c.dim;
  std::printf("| %s | %d | %d | %d | %.2f | %.0f | %.0f |\n", c.model, c.n_seqs, c.n_tokens, c.prefix, us,
              flop / us / 1e6, bytes / us / 1e3);
  std::fflush(stdout);
}

}  // namespace
}  // namespace monograph

int main(int argc, char** argv) {
  using namespace monograph;
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 10;
  std::printf(
      "| heads | sequences | tokens | prefix | us | TFLOP/s | GB/s of K and V |\n|---|---|---|---|---|---|---|\n");
  for (const auto& [model, n_heads] : {std::pair{"16/8x128", 16}, {"32/8x128", 32}}) {
    for (int t : {1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192})
      print_case({model, n_heads, 8, 128, 1, t, 0}, repeats);
    for (int context : {128, 512, 1024, 4096})
      for (int n : {1, 8, 64}) print_case({model, n_heads, 8, 128, n, 1, context - 1}, repeats);
    print_case({model, n_heads, 8, 128, 1, 64, 4032}, repeats);
  }
  for (int t : {2048, 8192}) print_case({"32/8x64", 32, 8, 64, 1, t, 0}, repeats);
}
