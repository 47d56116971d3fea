// One layer's weights and inputs on one backend, the same values on each.
#pragma once
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/support/twins.h"

namespace monograph::test {

inline constexpr float kEps = 1e-6f;

struct LayerShape {
  const char* name;
  int model_dim, ffn_dim, heads, kv_heads, head_dim;
};

inline constexpr int kVocab = 1000, kBlocks = 24, kBlock = 64, kWidth = 5, kMaxRows = 4, kMaxTokens = 320;

inline InputShape layer_inputs() {
  InputShape s;
  s.max_tokens = kMaxTokens;
  s.max_rows = kMaxRows;
  s.table_width = kWidth;
  s.block_size = kBlock;
  s.max_seqs = kMaxRows;
  s.max_seq_len = kBlock * kWidth;
  return s;
}

/// One backend (a name of devices.h) with one layer's weights, which are the same values on each.
class Twin {
 public:
  Twin(const std::string& device, const LayerShape& s)
      : backend_(backend_of(device)), step_(backend_, layer_inputs()), s_(s), random_(seed()) {
    WorkspaceShape workspace{kMaxTokens, kMaxRows, s.model_dim, s.ffn_dim, s.heads, s.kv_heads, s.head_dim, kVocab};
    const int q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    embedding = pack({kVocab}, s.model_dim, MatrixRole::kEmbedding);
    qkv = pack({q, kv, kv}, s.model_dim, MatrixRole::kQkv);
    out = pack({s.model_dim}, q, MatrixRole::kPlain);
    gate_up = pack({s.ffn_dim, s.ffn_dim}, s.model_dim, MatrixRole::kGateUp);
    down = pack({s.model_dim}, s.ffn_dim, MatrixRole::kPlain);
    norm = vector(s.model_dim, 1.0f);
    q_norm = vector(s.head_dim, 1.0f);
    k_norm = vector(s.head_dim, 1.0f);
    bias = vector(q + 2 * kv, 0.0f);
    std::vector<float> cos, sin;
    for (int p = 0; p < kBlock * kWidth; ++p)
      for (int i = 0; i < s.head_dim / 2; ++i) {
        const double angle = p * std::pow(10000.0, -2.0 * i / s.head_dim);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    cos_ = std::make_unique<Held>(backend_, cos);
    sin_ = std::make_unique<Held>(backend_, sin);
    const auto cache = random_bf16(random_, std::size_t{kBlocks} * kBlock * s.kv_heads * s.head_dim, 1.0f);
    k = std::make_unique<Held>(backend_, cache);
    v = std::make_unique<Held>(backend_, random_bf16(random_, cache.size(), 1.0f));
    backend_.ops->reserve(workspace);
  }

  const StepInputs& run(std::vector<Row> rows, int n_tokens) {
    std::mt19937_64 random(5);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      rows[r].sampling.history_row = static_cast<std::int32_t>(r);
      for (int i = 0; i < rows[r].n_tokens; ++i)
        rows[r].ids.push_back(static_cast<std::int32_t>(random() % (kVocab + 5)));
    }
    return step_.run(rows, n_tokens);
  }

  KvLayer kv() const {
    return {.k = k->data(),
            .v = v->data(),
            .dtype = DType::kBF16,
            .n_blocks = kBlocks,
            .block_size = kBlock,
            .n_kv_heads = s_.kv_heads,
            .head_dim = s_.head_dim};
  }
  QkvWeights qkv_weights(bool norms, bool with_bias) const {
    QkvWeights w;
    w.norm = view(norm, s_.model_dim);
    w.qkv = qkv.get();
    if (with_bias) w.bias = view(bias, qkv->rows());
    if (norms) w.q_norm = view(q_norm, s_.head_dim), w.k_norm = view(k_norm, s_.head_dim);
    return w;
  }
  RopeTable rope() const {
    const int half = s_.head_dim / 2, n = kBlock * kWidth;
    return {cos_->view<const float, 2>({n, half}), sin_->view<const float, 2>({n, half}), s_.head_dim, {}};
  }
  static View<const float, 1> view(const std::unique_ptr<Held>& held, int n) { return held->view<const float, 1>({n}); }

  Backend& backend() { return backend_; }
  Ops& ops() { return *backend_.ops; }

  std::unique_ptr<PackedMatrix> embedding, qkv, out, gate_up, down;
  std::unique_ptr<Held> norm, q_norm, k_norm, bias, k, v;

 private:
  std::unique_ptr<PackedMatrix> pack(const std::vector<int>& rows, int cols, MatrixRole role) {
    std::vector<std::vector<bf16>> values;
    std::vector<MatrixPart> parts;
    for (int n : rows)
      values.push_back(random_bf16(random_, static_cast<std::size_t>(n) * cols, 1.0f / std::sqrt(float(cols))));
    for (std::size_t i = 0; i < rows.size(); ++i)
      parts.push_back({DType::kBF16, rows[i], cols, std::as_bytes(std::span(values[i])), {}});
    auto packed = backend_.ops->pack(parts, role, s_.head_dim);
    backend_.device->synchronize();
    return packed;
  }
  std::unique_ptr<Held> vector(int n, float mean) {
    auto values = random_floats(random_, static_cast<std::size_t>(n), 0.2f);
    for (float& x : values) x += mean;
    return std::make_unique<Held>(backend_, values);
  }

  Backend backend_;
  Step step_;
  LayerShape s_;
  std::mt19937_64 random_;
  std::unique_ptr<Held> cos_, sin_;
};

}  // namespace monograph::test
