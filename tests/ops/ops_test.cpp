// Each op against its formula in double precision, with bounds from the type and the reduction length.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/support/step.h"

namespace monograph {
namespace {

using test::OwnedTensor;
using test::random_floats;
using test::Row;
using test::Step;

constexpr int kE = 96, kHeads = 6, kKv = 2, kDim = 16, kF = 80, kVocab = 150, kBlock = 64, kWidth = 20;
constexpr float kEps = 1e-5f;

struct Matrix {
  int rows, cols;
  std::vector<float> values;
  std::unique_ptr<PackedMatrix> packed;
};

/// Random weights of a small layer, float32, on one backend.
struct Layer {
  Matrix embedding, qkv, out, gate_up, down;
  std::vector<float> norm, q_norm, k_norm, bias, cos, sin;
};

Matrix make_matrix(Ops& ops, std::mt19937_64& random, int rows, int cols, MatrixRole role) {
  Matrix m{rows, cols, random_floats(random, std::size_t(rows) * cols, 1.0f / std::sqrt(float(cols))), nullptr};
  if (ops.activation_dtype() == DType::kBF16)
    for (float& v : m.values) v = to_float(to_bf16(v));
  const MatrixPart part{DType::kF32, rows, cols, std::as_bytes(std::span(m.values)), {}};
  m.packed = ops.pack({&part, 1}, role);
  return m;
}

Layer make_layer(Ops& ops) {
  std::mt19937_64 random(test::seed());
  Layer layer;
  layer.embedding = make_matrix(ops, random, kVocab, kE, MatrixRole::kEmbedding);
  layer.qkv = make_matrix(ops, random, (kHeads + 2 * kKv) * kDim, kE, MatrixRole::kQkv);
  layer.out = make_matrix(ops, random, kE, kHeads * kDim, MatrixRole::kPlain);
  layer.gate_up = make_matrix(ops, random, 2 * kF, kE, MatrixRole::kGateUp);
  layer.down = make_matrix(ops, random, kE, kF, MatrixRole::kPlain);
  for (auto* weights : {&layer.norm, &layer.q_norm, &layer.k_norm, &layer.bias}) *weights = random_floats(random, 200);
  for (int p = 0; p < kBlock * kWidth; ++p) {
    for (int i = 0; i < kDim / 2; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / kDim);
      layer.cos.push_back(float(std::cos(angle)));
      layer.sin.push_back(float(std::sin(angle)));
    }
  }
  return layer;
}

struct Cache {
  OwnedTensor<1> k, v;
  KvLayer layer;
  Cache(DType dtype, int n_blocks)
      : k(dtype, {n_blocks * kKv * kBlock * kDim}), v(dtype, {n_blocks * kKv * kBlock * kDim}) {
    layer = {k.view().data, v.view().data, dtype, n_blocks, kBlock, kKv, kDim, 0};
  }
  std::size_t index(int block, int head, int row, int d) const {
    return ((std::size_t(block) * kKv + head) * kBlock + row) * kDim + d;
  }
};

InputShape shape() {
  InputShape s;
  s.max_tokens = 256;
  s.max_rows = 4;
  s.table_width = kWidth;
  s.block_size = kBlock;
  s.max_seqs = 4;
  s.max_seq_len = kBlock * kWidth;
  return s;
}

std::vector<double> normalised(const OwnedTensor<2>& x, int row, const std::vector<float>& weight, bool rounded) {
  const int n = x.shape[1];
  std::vector<double> out(n);
  double sum = 0;
  for (int e = 0; e < n; ++e) sum += std::pow(double(x.at(std::size_t(row) * n + e)), 2);
  for (int e = 0; e < n; ++e) {
    out[e] = x.at(std::size_t(row) * n + e) / std::sqrt(sum / n + double(kEps)) * weight[e];
    if (rounded) out[e] = to_float(to_bf16(float(out[e])));
  }
  return out;
}

double dot(const Matrix& m, int row, const std::vector<double>& x) {
  double sum = 0;
  for (int k = 0; k < m.cols; ++k) sum += m.values[std::size_t(row) * m.cols + k] * x[k];
  return sum;
}

class EachMode : public ::testing::TestWithParam<DType> {
 protected:
  DType mode = GetParam();
  bool rounded = mode == DType::kBF16;
  Backend backend = test::cpu_backend("", mode);
  Ops& ops = *backend.ops;
  Layer layer = make_layer(ops);
  Step step{backend, shape(), {30, 31, 32, 33}};
  std::mt19937_64 random{test::seed() + 1};

  // Sums of O(1) terms: float32 loses less than `length` half-ulps; storing bfloat16, and products of once-rounded
  // inputs whose own last bit may differ from the double reference's, lose 2^-8 of the result's scale.
  double bound(int length, double scale) const { return scale * (rounded ? 0x1p-7 : length * 0x1p-23); }

  OwnedTensor<2> random_rows(int n, int width) {
    OwnedTensor<2> x(mode, {n, width});
    const auto values = random_floats(random, x.size());
    for (std::size_t i = 0; i < values.size(); ++i) x.set(i, values[i]);
    return x;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, EachMode, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(EachMode, Embed) {
  std::vector<std::int32_t> ids = {0, 149, 7, -1, 150, 1 << 30, 64};
  const StepInputs& in = step.run({{7, 0, ids, {1}}}, 16);
  OwnedTensor<2> x = random_rows(16, kE);
  ops.embed(x.view(), *layer.embedding.packed, {}, in);
  for (int t = 0; t < 7; ++t) {
    for (int e = 0; e < kE; ++e) {
      const bool inside = ids[t] >= 0 && ids[t] < kVocab;
      EXPECT_EQ(x.at(t * kE + e), inside ? layer.embedding.values[std::size_t(ids[t]) * kE + e] : 0.0f);
    }
  }
}

TEST_P(EachMode, AddProject) {
  const StepInputs& in = step.run({{11, 0, {}, {1}}}, 16);
  OwnedTensor<2> x = random_rows(16, kE), a = random_rows(16, kF);
  const OwnedTensor<2> before = x;
  ops.add_project(x.view(), a.view(), *layer.down.packed, {}, in);
  for (int t = 0; t < 16; ++t) {
    std::vector<double> row(kF);
    for (int k = 0; k < kF; ++k) row[k] = a.at(t * kF + k);
    for (int e = 0; e < kE; ++e) {
      const double expected = before.at(t * kE + e) + (t < 11 ? dot(layer.down, e, row) : 0.0);
      EXPECT_NEAR(x.at(t * kE + e), expected, t < 11 ? bound(kF, 4) : 0.0) << "token " << t;
    }
  }
}

TEST_P(EachMode, GatedUp) {
  const StepInputs& in = step.run({{11, 0, {}, {1}}}, 16);
  OwnedTensor<2> x = random_rows(16, kE), out(mode, {16, kF});
  ops.gated_up(out.view(), x.view(), {layer.norm.data(), {kE}}, kEps, *layer.gate_up.packed, in);
  for (int t = 0; t < 11; ++t) {
    const auto row = normalised(x, t, layer.norm, rounded);
    for (int f = 0; f < kF; ++f) {
      const double gate = dot(layer.gate_up, f, row), up = dot(layer.gate_up, kF + f, row);
      EXPECT_NEAR(out.at(t * kF + f), gate / (1 + std::exp(-gate)) * up, bound(kE, 8)) << "token " << t;
    }
  }
}

TEST_P(EachMode, ProjectQkv) {
  const StepInputs& in = step.run({{70, 3, {}, {5, 2}}, {1, 130, {}, {7, 8, 9}}}, 128);
  Cache cache(mode, 34);
  OwnedTensor<2> x = random_rows(128, kE);
  OwnedTensor<3> q(mode, {128, kHeads, kDim});
  QkvWeights w;
  w.norm = {layer.norm.data(), {kE}};
  w.qkv = layer.qkv.packed.get();
  w.bias = {layer.bias.data(), {(kHeads + 2 * kKv) * kDim}};
  w.q_norm = {layer.q_norm.data(), {kDim}};
  w.k_norm = {layer.k_norm.data(), {kDim}};
  RopeTable rope;
  rope.rotary_dim = kDim;
  rope.cos = {layer.cos.data(), {kBlock * kWidth, kDim / 2}};
  rope.sin = {layer.sin.data(), {kBlock * kWidth, kDim / 2}};
  ops.project_qkv(q.view(), cache.layer, x.view(), w, rope, kEps, in);

  for (int t : {0, 1, 60, 61, 69, 70}) {
    const int position = t < 70 ? t + 3 : 130;
    const int block = t < 70 ? (position < 64 ? 5 : 2) : 9;
    const auto row = normalised(x, t, layer.norm, rounded);
    for (int h = 0; h < kHeads + 2 * kKv; ++h) {
      std::vector<double> head(kDim), turned(kDim);
      double squares = 0;
      for (int d = 0; d < kDim; ++d) {
        head[d] = dot(layer.qkv, h * kDim + d, row) + layer.bias[h * kDim + d];
        squares += head[d] * head[d];
      }
      const auto& norm = h < kHeads ? layer.q_norm : layer.k_norm;
      for (int d = 0; d < kDim && h < kHeads + kKv; ++d) head[d] *= norm[d] / std::sqrt(squares / kDim + double(kEps));
      turned = head;
      for (int i = 0; i < kDim / 2 && h < kHeads + kKv; ++i) {
        const double c = layer.cos[position * kDim / 2 + i], s = layer.sin[position * kDim / 2 + i];
        turned[i] = head[i] * c - head[i + kDim / 2] * s;
        turned[i + kDim / 2] = head[i + kDim / 2] * c + head[i] * s;
      }
      for (int d = 0; d < kDim; ++d) {
        const float got = h < kHeads         ? q.at((std::size_t(t) * kHeads + h) * kDim + d)
                          : h < kHeads + kKv ? cache.k.at(cache.index(block, h - kHeads, position % 64, d))
                                             : cache.v.at(cache.index(block, h - kHeads - kKv, position % 64, d));
        EXPECT_NEAR(got, turned[d], bound(kE + kDim, 8)) << "token " << t << " head " << h << " d " << d;
      }
    }
  }
  // Nothing else was written: padding went nowhere, block 0 is untouched.
  for (int block : {0, 30, 31, 6, 10})
    for (int d = 0; d < kDim; ++d) EXPECT_EQ(cache.k.at(cache.index(block, 0, 0, d)), 0.0f);
  EXPECT_EQ(cache.k.at(cache.index(5, 0, 2, 0)), 0.0f);
}

TEST_P(EachMode, PaddingLandsInScratchOnly) {
  const StepInputs& in = step.run({{3, 0, {}, {5}}}, 16, /*skip_padding=*/false);
  Cache cache(mode, 34);
  OwnedTensor<2> x = random_rows(16, kE);
  OwnedTensor<3> q(mode, {16, kHeads, kDim});
  QkvWeights w;
  w.norm = {layer.norm.data(), {kE}};
  w.qkv = layer.qkv.packed.get();
  RopeTable rope;  // rotary_dim 0: no rotation
  rope.cos = rope.sin = {layer.cos.data(), {kBlock * kWidth, 0}};
  ops.project_qkv(q.view(), cache.layer, x.view(), w, rope, kEps, in);
  for (int block = 0; block < 34; ++block)
    for (int row = 0; row < kBlock; ++row)
      EXPECT_EQ(cache.v.at(cache.index(block, 1, row, 3)) != 0.0f,
                (block == 5 && row < 3) || (block == 30 && row < 13));
}

TEST_P(EachMode, TakeRows) {
  const StepInputs& in = step.run({{3, 0, {}, {1}}, {4, 9, {}, {2}}, {1, 5, {}, {3}}}, 16);
  const OwnedTensor<2> x = random_rows(16, kE), heads = random_rows(16, kHeads * kDim);
  OwnedTensor<2> from_x = x, from_q = heads, x_out(mode, {4, kE}), q_out(mode, {4, kHeads * kDim});
  for (OwnedTensor<2>* out : {&x_out, &q_out})
    for (std::size_t i = 0; i < out->size(); ++i) out->set(i, 77.0f);
  const auto as_heads = [](const Tensor<2>& t) { return Tensor<3>{t.data, t.dtype, {t.shape[0], kHeads, kDim}}; };
  ops.take_rows(x_out.view(), as_heads(q_out.view()), from_x.view(), as_heads(from_q.view()), in);
  const int rows[] = {2, 6, 7};
  for (int slot = 0; slot < 4; ++slot) {
    for (int e = 0; e < kE; ++e)
      ASSERT_EQ(x_out.at(std::size_t(slot) * kE + e), slot < 3 ? x.at(std::size_t(rows[slot]) * kE + e) : 77.0f);
    for (int e = 0; e < kHeads * kDim; ++e)
      ASSERT_EQ(q_out.at(std::size_t(slot) * kHeads * kDim + e),
                slot < 3 ? heads.at(std::size_t(rows[slot]) * kHeads * kDim + e) : 77.0f);
  }
}

TEST_P(EachMode, Attend) {
  // Lengths around tiles and splits; slot 1 is empty of prefix, slot 2 a decode row far along.
  const std::vector<Row> rows = {{70, 3, {}, {5, 2}},
                                 {5, 0, {}, {6}},
                                 {1, 1100, {}, {7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
                                 {2, 511, {}, {25, 26, 27, 28, 29, 30, 31, 32, 33}}};
  const StepInputs& in = step.run(rows, 128);
  Cache cache(mode, 34);
  const auto ks = random_floats(random, cache.k.size()), vs = random_floats(random, cache.v.size());
  for (std::size_t i = 0; i < ks.size(); ++i) cache.k.set(i, ks[i]), cache.v.set(i, vs[i]);
  OwnedTensor<3> q(mode, {128, kHeads, kDim}), out(mode, {128, kHeads, kDim});
  const auto qs = random_floats(random, q.size());
  for (std::size_t i = 0; i < qs.size(); ++i) q.set(i, qs[i]);
  const float scale = 0.25f;
  ops.attend(out.view(), q.view(), cache.layer, scale, in);

  int t = 0;
  for (const Row& row : rows) {
    for (int i = 0; i < row.n_tokens; ++i, ++t) {
      for (int h = 0; h < kHeads; ++h) {
        const int n_keys = row.prefix + i + 1, kv_head = h / (kHeads / kKv);
        std::vector<double> s(n_keys), expected(kDim, 0.0);
        double max = -1e300, sum = 0;
        for (int j = 0; j < n_keys; ++j) {
          for (int d = 0; d < kDim; ++d)
            s[j] += q.at((std::size_t(t) * kHeads + h) * kDim + d) *
                    double(cache.k.at(cache.index(row.table[j / 64], kv_head, j % 64, d)));
          s[j] *= scale;
          max = std::max(max, s[j]);
        }
        for (int j = 0; j < n_keys; ++j) sum += s[j] = std::exp(s[j] - max);
        for (int j = 0; j < n_keys; ++j)
          for (int d = 0; d < kDim; ++d)
            expected[d] += s[j] / sum * cache.v.at(cache.index(row.table[j / 64], kv_head, j % 64, d));
        for (int d = 0; d < kDim; ++d)
          EXPECT_NEAR(out.at((std::size_t(t) * kHeads + h) * kDim + d), expected[d], bound(64, 4))
              << "token " << t << " head " << h;
      }
    }
  }
}

TEST_P(EachMode, HeadLogits) {
  std::vector<Row> rows = {{3, 0, {}, {1}}, {4, 0, {}, {2}}, {1, 9, {}, {3}}};
  rows[0].sampling.samples = rows[2].sampling.samples = 1;
  const StepInputs& in = step.run(rows, 16);
  OwnedTensor<2> x = random_rows(16, kE);
  std::vector<float> logits(4 * kVocab, 77.0f);
  ops.head_logits({logits.data(), {4, kVocab}}, x.view(), {layer.norm.data(), {kE}}, kEps, *layer.embedding.packed, in);
  for (int slot = 0; slot < 4; ++slot) {
    if (slot != 0 && slot != 2) {
      for (int v = 0; v < kVocab; ++v) EXPECT_EQ(logits[slot * kVocab + v], 77.0f);
      continue;
    }
    const auto row = normalised(x, slot == 0 ? 2 : 7, layer.norm, rounded);
    for (int v = 0; v < kVocab; ++v)
      EXPECT_NEAR(logits[slot * kVocab + v], dot(layer.embedding, v, row), bound(kE, 4)) << "slot " << slot;
  }
}

}  // namespace
}  // namespace monograph
