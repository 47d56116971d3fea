// SPEC D8 for a stack of two layers: a row's bits depend on its own tokens alone. Not on neighbours, slots, padding,
// buckets, chunks, thread counts or SIMD targets.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/math.h"
#include "ops/cpu/kernels.h"
#include "tests/ops/support/step.h"

namespace monograph {
namespace {

using test::OwnedTensor;
using test::Row;
using test::Step;

constexpr int kE = 64, kHeads = 4, kKv = 2, kDim = 32, kF = 96, kVocab = 130, kBlock = 64, kWidth = 12, kBlocks = 60;
constexpr int kMaxTokens = 256, kMaxRows = 5, kLayers = 2;

InputShape shape() {
  InputShape s;
  s.max_tokens = kMaxTokens;
  s.max_rows = kMaxRows;
  s.table_width = kWidth;
  s.block_size = kBlock;
  s.max_seqs = kMaxRows;
  s.max_seq_len = kBlock * kWidth;
  return s;
}

struct Layer {
  std::unique_ptr<PackedMatrix> qkv, out, gate_up, down;
  std::unique_ptr<OwnedTensor<1>> k, v;
};

/// A tiny quantised model, its cache, and the logits of a step's sampling rows.
class Stack {
 public:
  explicit Stack(Backend backend, DType weights = DType::kQ4_1)
      : backend_(std::move(backend)), step_(backend_, shape(), {50, 51, 52, 53}), mode_(ops().activation_dtype()) {
    std::mt19937_64 random(test::seed());
    const auto matrix = [&](int rows, int cols, MatrixRole role) {
      const auto bytes = test::random_blocks(random, weights, rows, cols);
      const MatrixPart part{weights, rows, cols, bytes, {}};
      return ops().pack({&part, 1}, role);
    };
    embedding_ = matrix(kVocab, kE, MatrixRole::kEmbedding);
    for (int i = 0; i < kLayers; ++i)
      layers_.push_back({matrix((kHeads + 2 * kKv) * kDim, kE, MatrixRole::kQkv),
                         matrix(kE, kHeads * kDim, MatrixRole::kPlain), matrix(2 * kF, kE, MatrixRole::kGateUp),
                         matrix(kE, kF, MatrixRole::kPlain),
                         std::make_unique<OwnedTensor<1>>(mode_, std::array{kBlocks * kKv * kBlock * kDim}),
                         std::make_unique<OwnedTensor<1>>(mode_, std::array{kBlocks * kKv * kBlock * kDim})});
    norm_ = test::random_floats(random, kE);
    for (int p = 0; p < kBlock * kWidth; ++p) {
      for (int i = 0; i < kDim / 2; ++i) {
        cos_.push_back(static_cast<float>(std::cos(p * std::pow(0.7, i))));
        sin_.push_back(static_cast<float>(std::sin(p * std::pow(0.7, i))));
      }
    }
  }

  /// Fills everything a step might wrongly read with NaN: padding rows and blocks that are nobody's.
  void poison() {
    for (OwnedTensor<2>* t : {&x_, &ffn_})
      for (std::size_t i = 0; i < t->size(); ++i) t->set(i, std::nanf(""));
    for (Layer& layer : layers_)
      for (std::size_t i = 0; i < layer.k->size(); ++i) {
        layer.k->set(i, std::nanf(""));
        layer.v->set(i, std::nanf(""));
      }
  }

  std::vector<std::vector<std::uint32_t>> run(const std::vector<Row>& rows, int capacity, bool skip_padding = true) {
    const StepInputs& in = step_.run(rows, capacity, skip_padding);
    const Tensor<2> x = x_.view(), ffn = ffn_.view();
    const Tensor<3> q = q_.view(), attn = attn_.view();
    const Tensor<2> attn_rows{attn.data, attn.dtype, {kMaxTokens, kHeads * kDim}};
    const View<const float, 1> norm{norm_.data(), {kE}};
    RopeTable rope;
    rope.rotary_dim = kDim;
    rope.cos = {cos_.data(), {kBlock * kWidth, kDim / 2}};
    rope.sin = {sin_.data(), {kBlock * kWidth, kDim / 2}};
    ops().embed(x, *embedding_, {}, in);
    for (Layer& layer : layers_) {
      QkvWeights w;
      w.norm = norm;
      w.qkv = layer.qkv.get();
      const KvLayer kv{layer.k->view().data, layer.v->view().data, mode_, kBlocks, kBlock, kKv, kDim, 0};
      ops().project_qkv(q, kv, x, w, rope, 1e-5f, in);
      ops().attend(attn, q, kv, 0.2f, in);
      ops().add_project(x, attn_rows, *layer.out, {}, in);
      ops().gated_up(ffn, x, norm, 1e-5f, *layer.gate_up, in);
      ops().add_project(x, ffn, *layer.down, {}, in);
    }
    std::vector<float> logits(kMaxRows * kVocab);
    ops().head_logits({logits.data(), {kMaxRows, kVocab}}, x, norm, 1e-5f, *embedding_, in);
    std::vector<std::vector<std::uint32_t>> bits(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (int v = 0; v < kVocab; ++v) bits[r].push_back(bits_of(logits[r * kVocab + v]));
    return bits;
  }

 private:
  Ops& ops() { return *backend_.ops; }
  Backend backend_;
  Step step_;
  DType mode_;
  std::unique_ptr<PackedMatrix> embedding_;
  std::vector<Layer> layers_;
  std::vector<float> norm_, cos_, sin_;
  OwnedTensor<2> x_{mode_, {kMaxTokens, kE}}, ffn_{mode_, {kMaxTokens, kF}};
  OwnedTensor<3> q_{mode_, {kMaxTokens, kHeads, kDim}}, attn_{mode_, {kMaxTokens, kHeads, kDim}};
};

/// A sequence of its own ids; blocks from `first_block` on.
struct Sequence {
  std::vector<std::int32_t> ids, table;
  Sequence(std::mt19937_64& random, int length, int first_block) {
    for (int i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(random() % kVocab));
    for (int i = 0; i < (length + kBlock - 1) / kBlock; ++i) table.push_back(first_block + i);
  }
  Row part(int from, int to) const {
    Row row;
    row.n_tokens = to - from;
    row.prefix = from;
    row.ids.assign(ids.begin() + from, ids.begin() + to);
    row.table = table;
    row.sampling.samples = 1;
    return row;
  }
  Row whole() const { return part(0, static_cast<int>(ids.size())); }
};

class Invariance : public ::testing::TestWithParam<DType> {
 protected:
  Stack make(const std::string& target = "", int threads = 2) {
    return Stack(test::cpu_backend(target, GetParam(), threads));
  }
  std::mt19937_64 random{test::seed() + 5};
};
INSTANTIATE_TEST_SUITE_P(Modes, Invariance, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(Invariance, ALengthAloneOrCutAnywhereIsTheSame) {
  Stack stack = make();
  stack.poison();
  for (int length : {1, 2, 3, 17, 64, 65, 130}) {
    const Sequence s(random, length, 1);
    const auto alone = stack.run({s.whole()}, length)[0];
    for (std::uint32_t u : alone) ASSERT_FALSE(std::isnan(float_of(u)));
    EXPECT_EQ(stack.run({s.whole()}, 256)[0], alone) << "padded, length " << length;
    for (int chunk : {1, 7, 64}) {
      if (chunk == 1 && length > 17) continue;
      stack.poison();
      std::vector<std::uint32_t> last;
      for (int from = 0; from < length; from += chunk)
        last = stack.run({s.part(from, std::min(length, from + chunk))}, chunk)[0];
      EXPECT_EQ(last, alone) << "length " << length << " in chunks of " << chunk;
    }
  }
}

TEST_P(Invariance, NeighboursSlotsAndPaddingDoNotShow) {
  Stack stack = make();
  stack.poison();
  const Sequence a(random, 70, 1), b(random, 33, 10), c(random, 1, 20), d(random, 150, 30);
  std::map<const Sequence*, std::vector<std::uint32_t>> alone;
  for (const Sequence* s : {&a, &b, &c}) alone[s] = stack.run({s->whole()}, static_cast<int>(s->ids.size()))[0];
  stack.run({d.part(0, 149)}, 149);
  alone[&d] = stack.run({d.part(149, 150)}, 1)[0];

  for (bool skip : {true, false}) {
    for (int capacity : {105, 160, 256}) {
      stack.poison();
      stack.run({d.part(0, 149)}, 149);
      // d's last token decodes beside prefills, in every slot once.
      const Row row_a = a.whole(), row_b = b.whole(), row_c = c.whole(), row_d = d.part(149, 150);
      const auto first = stack.run({row_a, row_b, row_c, row_d}, capacity, skip);
      EXPECT_EQ(first[0], alone[&a]) << capacity;
      EXPECT_EQ(first[1], alone[&b]) << capacity;
      EXPECT_EQ(first[2], alone[&c]) << capacity;
      EXPECT_EQ(first[3], alone[&d]) << capacity;
      const auto second = stack.run({row_d, row_c, row_b, row_a}, capacity, skip);
      EXPECT_EQ(second[0], alone[&d]);
      EXPECT_EQ(second[3], alone[&a]);
    }
  }
}

// S-59: a backend accepts slots without tokens anywhere, first, middle and last, and reads no live maximum of the host.
TEST_P(Invariance, S59_EmptySlotsAnywhere) {
  Stack stack = make();
  const Sequence a(random, 70, 1), b(random, 33, 10);
  const auto alone_a = stack.run({a.whole()}, 70)[0], alone_b = stack.run({b.whole()}, 33)[0];
  const Row empty{.n_tokens = 0}, row_a = a.whole(), row_b = b.whole();
  const std::vector<std::vector<Row>> layouts = {{empty, row_a, row_b},
                                                 {row_a, empty, row_b},
                                                 {row_a, row_b, empty},
                                                 {empty, row_a, empty, row_b, empty},
                                                 {empty, empty, empty, row_a, row_b}};
  for (bool skip : {true, false})
    for (const auto& rows : layouts)
      for (int capacity : {103, 160}) {
        stack.poison();
        const auto bits = stack.run(rows, capacity, skip);
        for (std::size_t r = 0; r < rows.size(); ++r)
          if (rows[r].n_tokens > 0) {
            EXPECT_EQ(bits[r], rows[r].n_tokens == 70 ? alone_a : alone_b) << "slot " << r << " of " << rows.size();
          }
      }
}

TEST_P(Invariance, AnInnerChunkMayBeShortAndSitAnywhere) {
  Stack stack = make();
  const Sequence s(random, 600, 1), other(random, 80, 20);
  stack.run({s.part(0, 250)}, 256);
  stack.run({s.part(250, 500)}, 256);
  const auto expected = stack.run({s.part(500, 600)}, 128)[0];
  stack.run({s.part(500, 511)}, 11);
  stack.run({s.part(511, 513)}, 2);
  stack.run({other.whole(), s.part(513, 599)}, 256);
  EXPECT_EQ(stack.run({other.part(79, 80), s.part(599, 600)}, 2)[1], expected);
}

// OL05: each target that this CPU has, forced in turn, as if it had no more.
TEST_P(Invariance, ThreadsAndTargetsDoNotShow) {
  const Sequence a(random, 70, 1), b(random, 33, 10);
  Stack stack = make();
  const auto expected = stack.run({a.whole(), b.whole()}, 128);
  for (const std::string& target : cpu::kernel_targets()) {
    for (int threads : {1, 2, 3}) {
      if (target == "reference" && threads > 1) continue;  // slow, and it has the same arrangement
      Stack other = make(target, threads);
      EXPECT_EQ(other.run({a.whole(), b.whole()}, 128), expected) << target << ", " << threads << " threads";
      EXPECT_EQ(other.run({b.part(32, 33)}, 1)[0], expected[1]) << target << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace monograph
