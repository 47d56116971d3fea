// Attention on the GPU: every kernel against float64 sums, and against each other bit for bit: a row alone, in a chunk
// of a few rows, in a chunk of many and in its whole packed prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "monograph/error.h"
#include "tests/ops/support/step.h"
#include "tests/support/devices.h"

namespace monograph::test {
namespace {

struct Heads {
  int n_heads, n_kv_heads, dim;
};

/// A sequence with queries, keys and values for all its positions, and its blocks of the cache.
struct Sequence {
  int length = 0;
  std::vector<bf16> q, k, v;  // [length, heads, dim]
  std::vector<std::int32_t> blocks;
};

class CudaAttention : public ::testing::TestWithParam<std::tuple<Heads, const char*>> {
 protected:
  static constexpr int kMaxTokens = 6400, kMaxRows = 20, kMaxSeqLen = 4608, kBlocks = 320;

  void SetUp() override {
    backend_ = make_backend(testing::named_backend(std::get<1>(GetParam())), Log());
    WorkspaceShape shape;
    shape.max_tokens = kMaxTokens;
    shape.max_rows = kMaxRows;
    shape.model_dim = 64;
    shape.ffn_dim = 64;
    shape.vocab_size = 64;
    shape.n_heads = heads().n_heads;
    shape.n_kv_heads = heads().n_kv_heads;
    shape.head_dim = heads().dim;
    backend_.ops->reserve(shape);
    InputShape inputs;
    inputs.max_tokens = kMaxTokens;
    inputs.max_rows = kMaxRows;
    inputs.table_width = kMaxSeqLen / 64;
    inputs.max_seqs = 1;
    inputs.max_seq_len = kMaxSeqLen;
    step_ = std::make_unique<Step>(backend_, inputs);
    const std::int64_t tensor = std::int64_t{2} * kMaxTokens * heads().n_heads * heads().dim;
    q_ = backend_.device->allocate(tensor);
    out_ = backend_.device->allocate(tensor);
    cache_bytes_ = std::int64_t{2} * kBlocks * 64 * heads().n_kv_heads * heads().dim;
    k_ = backend_.device->allocate(cache_bytes_);
    v_ = backend_.device->allocate(cache_bytes_);
    scale_ = 1.0f / std::sqrt(static_cast<float>(heads().dim));
  }

  const Heads& heads() const { return std::get<0>(GetParam()); }
  std::size_t row_size() const { return std::size_t(heads().n_heads) * heads().dim; }
  std::size_t kv_size() const { return std::size_t(heads().n_kv_heads) * heads().dim; }

  /// Sequences in blocks of a random order; scores spread far enough for the softmax's base to move.
  std::vector<Sequence> make_sequences(const std::vector<int>& lengths) {
    std::vector<std::int32_t> free(kBlocks - 1);
    std::iota(free.begin(), free.end(), 1);
    std::shuffle(free.begin(), free.end(), random_);
    std::vector<Sequence> sequences;
    for (int length : lengths) {
      Sequence s;
      s.length = length;
      const auto fill = [&](std::vector<bf16>& to, std::size_t n, float scale) {
        for (float value : random_floats(random_, n, scale)) to.push_back(to_bf16(value));
      };
      fill(s.q, length * row_size(), 2.5f);
      fill(s.k, length * kv_size(), 1.5f);
      fill(s.v, length * kv_size(), 1.0f);
      for (int b = 0; b < (length + 63) / 64; ++b) {
        s.blocks.push_back(free.back());
        free.pop_back();
      }
      sequences.push_back(std::move(s));
    }
    return sequences;
  }

  /// The first `visible` keys and values of each sequence; everything else in the cache is NaN.
  void fill_cache(const std::vector<Sequence>& sequences, const std::vector<int>& visible) {
    std::vector<bf16> k(static_cast<std::size_t>(cache_bytes_ / 2), bf16{0xffff}), v = k;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      const std::size_t dim = std::size_t(heads().dim);
      for (int p = 0; p < visible[i]; ++p)
        for (int h = 0; h < heads().n_kv_heads; ++h) {
          const std::size_t to = ((std::size_t(s.blocks[p / 64]) * heads().n_kv_heads + h) * 64 + p % 64) * dim,
                            from = (std::size_t(p) * heads().n_kv_heads + h) * dim;
          std::copy_n(s.k.begin() + from, dim, k.begin() + to);
          std::copy_n(s.v.begin() + from, dim, v.begin() + to);
        }
    }
    backend_.device->copy_to_device(k_.data(), k.data(), cache_bytes_);
    backend_.device->copy_to_device(v_.data(), v.data(), cache_bytes_);
    backend_.device->synchronize();
  }

  struct Piece {
    const Sequence* sequence;
    int first, n;
  };
  /// One step: rows first .. first + n of each piece's sequence; their outputs, one after another. `last_rows`: the
  /// last row of each piece alone.
  std::vector<bf16> attend(const std::vector<Piece>& pieces, int step_capacity, bool last_rows = false) {
    std::vector<Row> rows;
    std::vector<bf16> q;
    for (const Piece& piece : pieces) {
      Row row;
      row.n_tokens = piece.n;
      row.prefix = piece.first;
      row.ids.assign(std::size_t(piece.n), 0);
      row.table = piece.sequence->blocks;
      rows.push_back(row);
      const auto from = piece.sequence->q.begin() + piece.first * row_size();
      q.insert(q.end(), from + (last_rows ? piece.n - 1 : 0) * row_size(), from + piece.n * row_size());
    }
    const StepInputs& whole = step_->run(rows, step_capacity);
    const StepInputs in = last_rows ? whole.last_rows() : whole;
    const int capacity = in.capacity;
    Device& device = *backend_.device;
    const std::size_t all = capacity * row_size();
    const std::vector<bf16> poison(all, bf16{0xffff});
    device.copy_to_device(out_.data(), poison.data(), std::int64_t(2 * all));
    device.copy_to_device(q_.data(), poison.data(), std::int64_t(2 * all));
    device.copy_to_device(q_.data(), q.data(), std::int64_t(2 * q.size()));
    KvLayer layer;
    layer.k = k_.data();
    layer.v = v_.data();
    layer.dtype = DType::kBF16;
    layer.n_blocks = kBlocks;
    layer.n_kv_heads = heads().n_kv_heads;
    layer.head_dim = heads().dim;
    const std::array<int, 3> shape{capacity, heads().n_heads, heads().dim};
    const Tensor<3> out{out_.data(), DType::kBF16, shape};
    // Twice: what the first launch leaves behind is what the second one starts from.
    for (int i = 0; i < 2; ++i) backend_.ops->attend(out, {q_.data(), DType::kBF16, shape}, layer, scale_, in);
    std::vector<bf16> result(q.size());
    device.copy_to_host(result.data(), out_.data(), std::int64_t(2 * result.size()));
    device.synchronize();
    return result;
  }

  /// Row `position` of all heads within what bf16 weights and a bf16 result allow.
  void expect_near_reference(const Sequence& s, int position, const bf16* out) {
    const int dim = heads().dim, group = heads().n_heads / heads().n_kv_heads;
    std::vector<double> w(std::size_t(position) + 1);
    for (int h = 0; h < heads().n_heads; ++h) {
      const bf16* q = &s.q[position * row_size() + h * dim];
      const auto kv_at = [&](const std::vector<bf16>& x, int p) { return &x[p * kv_size() + h / group * dim]; };
      double top = -1e300, sum = 0;
      for (int p = 0; p <= position; ++p) {
        w[p] = 0;
        for (int d = 0; d < dim; ++d) w[p] += double(to_float(q[d])) * to_float(kv_at(s.k, p)[d]);
        w[p] *= scale_;
        top = std::max(top, w[p]);
      }
      for (double& x : w) sum += x = std::exp(x - top);
      for (int d = 0; d < dim; ++d) {
        double expected = 0, size = 0;
        for (int p = 0; p <= position; ++p) {
          const double term = w[p] / sum * to_float(kv_at(s.v, p)[d]);
          expected += term;
          size += std::abs(term);
        }
        // Half a unit of bf16 for each weight and for the result, and a little for scores and exponentials.
        const double bound = size * (0x1p-8 + 0x1p-9) + std::abs(expected) * 0x1p-8 + 1e-7;
        const float actual = to_float(out[h * dim + d]);
        if (!(std::abs(actual - expected) <= bound)) {
          ADD_FAILURE() << "position " << position << " of " << s.length << ", head " << h << ", column " << d << ": "
                        << actual << ", expected " << expected << " within " << bound;
          return;
        }
      }
    }
  }

  bool same_row(const bf16* a, const bf16* b) const { return std::memcmp(a, b, 2 * row_size()) == 0; }

  std::mt19937_64 random_{seed()};
  Backend backend_;
  std::unique_ptr<Step> step_;
  Buffer q_, out_, k_, v_;
  std::int64_t cache_bytes_ = 0;
  float scale_ = 0;
};

TEST_P(CudaAttention, WholePromptsAreNearFloat64AndEveryPieceHasTheirBits) {
  const std::vector<int> lengths{1, 63, 64, 65, 130, 511, 512, 513, 1500, 2900};
  const std::vector<Sequence> sequences = make_sequences(lengths);
  fill_cache(sequences, lengths);
  std::vector<Piece> whole;
  for (const Sequence& s : sequences) whole.push_back({&s, 0, s.length});
  const std::vector<bf16> prompt = attend(whole, kMaxTokens);

  std::size_t first = 0;
  for (const Sequence& s : sequences) {
    const bf16* rows = &prompt[first];
    first += s.length * row_size();
    std::vector<int> positions{0, s.length - 1};
    for (int p : {62, 63, 64, 127, 510, 511, 512, 1023, 1024})
      if (p < s.length) positions.push_back(p);
    for (int i = 0; i < 3; ++i) positions.push_back(static_cast<int>(random_() % s.length));
    for (int p : positions) {
      expect_near_reference(s, p, rows + p * row_size());
      // Alone, in two chunks of a few rows and in two of many: other tiles, other kernels, the same bits.
      for (const auto& [n, capacity] : {std::pair{1, 1}, {1, 8}, {19, 32}, {32, 32}, {41, 64}, {200, 256}}) {
        const int before = std::min(p, n / 2), count = std::min(n, s.length - (p - before));
        const std::vector<bf16> piece = attend({{&s, p - before, count}}, capacity);
        for (int i = 0; i < count; ++i)
          ASSERT_TRUE(same_row(&piece[i * row_size()], rows + (p - before + i) * row_size()))
              << "row " << p - before + i << " of " << s.length << " in a piece of " << count << " from " << p - before
              << ", capacity " << capacity;
      }
    }
  }
}

TEST_P(CudaAttention, NothingPastASequencesEndIsSeen) {
  // Decode, chunk and prompt in one batch, with NaN behind each one's last token; then with the rest of the keys there.
  const std::vector<Sequence> sequences = make_sequences({4200, 700, 100, 65, 1000, 31});
  const std::vector<Piece> pieces{{&sequences[0], 4127, 1}, {&sequences[1], 600, 37}, {&sequences[2], 0, 90},
                                  {&sequences[3], 64, 1},   {&sequences[4], 0, 700},  {&sequences[5], 0, 7}};
  std::vector<int> visible, all;
  int n_tokens = 0;
  for (const Piece& piece : pieces) {
    visible.push_back(piece.first + piece.n);
    all.push_back(piece.sequence->length);
    n_tokens += piece.n;
  }
  fill_cache(sequences, visible);
  const std::vector<bf16> packed = attend(pieces, 1024);
  std::vector<std::vector<bf16>> alone;
  for (const Piece& piece : pieces) {
    alone.push_back(attend({piece}, piece.n));
    const std::size_t at = (alone.size() - 1);
    expect_near_reference(*piece.sequence, piece.first + piece.n - 1,
                          &alone[at][(std::size_t(piece.n) - 1) * row_size()]);
  }
  fill_cache(sequences, all);
  EXPECT_EQ(0, std::memcmp(packed.data(), attend(pieces, 1024).data(), 2 * n_tokens * row_size()));
  std::size_t first = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(0, std::memcmp(&packed[first], alone[i].data(), 2 * alone[i].size())) << "piece " << i;
    first += alone[i].size();
  }
}

TEST_P(CudaAttention, TheLastRowsOfAStepHaveTheirBits) {
  const std::vector<int> lengths{1, 63, 64, 65, 130, 511, 512, 513, 1500, 2900};
  const std::vector<Sequence> sequences = make_sequences(lengths);
  fill_cache(sequences, lengths);
  for (const std::size_t n_pieces : {std::size_t{1}, std::size_t{4}, sequences.size()})
    for (const bool whole : {true, false}) {
      std::vector<Piece> pieces;
      int n_tokens = 0;
      for (std::size_t i = sequences.size() - n_pieces; i < sequences.size(); ++i) {
        const Sequence& s = sequences[i];
        const int n = whole ? s.length : 1 + static_cast<int>(random_() % static_cast<unsigned>(s.length));
        pieces.push_back({&s, s.length - n, n});
        n_tokens += n;
      }
      const std::vector<bf16> all = attend(pieces, n_tokens), last = attend(pieces, n_tokens, true);
      std::size_t end = 0;
      for (std::size_t i = 0; i < n_pieces; ++i) {
        end += pieces[i].n * row_size();
        EXPECT_TRUE(same_row(&last[i * row_size()], &all[end - row_size()])) << "piece " << i << " of " << n_pieces;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Heads, CudaAttention,
                         ::testing::Combine(::testing::Values(Heads{16, 8, 128}, Heads{32, 8, 128}, Heads{14, 2, 64},
                                                              Heads{9, 3, 64}, Heads{4, 4, 96}, Heads{4, 2, 16},
                                                              Heads{8, 2, 32}, Heads{4, 1, 256}),
                                            ::testing::Values("cuda", "cuda_sm80")),
                         [](const auto& info) {
                           const Heads& heads = std::get<0>(info.param);
                           return std::to_string(heads.n_heads) + "x" + std::to_string(heads.n_kv_heads) + "x" +
                                  std::to_string(heads.dim) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace monograph::test
