// Attention over the key tiles of one kv head, for every row of an AttentionTile at once. The arithmetic of a row is
// kernels_reference.cpp's; here rows share the transposed keys, and tiles that all rows see whole go through the
// register-blocked product.
#if defined(MONOGRAPH_SIMD_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_ATTENTION_INL_H_
#undef MONOGRAPH_SIMD_ATTENTION_INL_H_
#else
#define MONOGRAPH_SIMD_ATTENTION_INL_H_
#endif

#include <limits>

#include "hwy/cache_control.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/simd/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

HWY_INLINE int RoundUp(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Room of one call. Partial results lie split after split: sums, maxima and weighted values of every row.
struct AttentionRoom {
  int n_rows, dim, columns, keys;  // columns: dim rounded up; keys: block_size rounded up
  float *key_tile, *value_tile, *scores;
  float *max, *sum, *acc;  // [split][row], [split][row], [split][row][columns]

  AttentionRoom(const AttentionTile& tile, int n_splits, Scratch& scratch)
      : n_rows(tile.n_tokens * tile.n_heads),
        dim(tile.kv.head_dim),
        columns(RoundUp(dim)),
        keys(RoundUp(tile.kv.block_size)) {
    // The copy that keys are transposed from lies behind them.
    key_tile = scratch.floats(Scratch::kKeys, std::int64_t{keys} * (columns + columns));
    value_tile = scratch.floats(Scratch::kValues, std::int64_t{keys} * columns);
    scores = scratch.floats(Scratch::kScores, std::max(std::int64_t{n_rows} * keys, std::int64_t{columns}));
    max = scratch.floats(Scratch::kAccumulators, std::int64_t{n_splits} * n_rows * (columns + 2));
    sum = max + std::int64_t{n_splits} * n_rows;
    acc = sum + std::int64_t{n_splits} * n_rows;
  }
  float* acc_of(int split, int row) const { return acc + (std::int64_t{split} * n_rows + row) * columns; }
};

/// Rows of one kv head in one block as float32 [block_size][columns]: in place if they are that already.
HWY_INLINE const float* TileRows(const void* cache, const AttentionTile& tile, int block, int columns, float* room) {
  const KvLayer& kv = tile.kv;
  const std::int64_t at = (static_cast<std::int64_t>(block) * kv.n_kv_heads + tile.kv_head) * kv.block_size;
  if (kv.dtype == DType::kF32) {
    const float* rows = static_cast<const float*>(cache) + at * kv.head_dim;
    if (kv.head_dim == columns) return rows;
    for (int j = 0; j < kv.block_size; ++j) std::copy_n(rows + j * kv.head_dim, kv.head_dim, room + j * columns);
    return room;
  }
  const bf16* rows = static_cast<const bf16*>(cache) + at * kv.head_dim;
  for (int j = 0; j < kv.block_size; ++j) {
    const bf16* row = rows + j * kv.head_dim;
    int d = 0;
    for (; d + kN <= kv.head_dim; d += kN) Store(LoadBf16(row + d), room + j * columns + d);
    for (; d < kv.head_dim; ++d) room[j * columns + d] = to_float(row[d]);
  }
  return room;
}

/// Asks for one kv head's rows of a block early: a cache block starts where no hardware prefetcher expects it.
HWY_INLINE void PrefetchRows(const void* cache, const AttentionTile& tile, int block) {
  const KvLayer& kv = tile.kv;
  const std::int64_t size = std::int64_t{kv.block_size} * kv.head_dim * (kv.dtype == DType::kF32 ? 4 : 2);
  const char* rows =
      static_cast<const char*>(cache) + (static_cast<std::int64_t>(block) * kv.n_kv_heads + tile.kv_head) * size;
  for (std::int64_t at = 0; at < size; at += 64) hwy::Prefetch(rows + at);
}

/// Transposes 4 x 4 corners of four rows: vector i of the result holds, block by block, column 4 b + i of the rows.
template <class D, class Vec>
HWY_INLINE void TransposeCorners(D d, Vec r[4]) {
  const hn::Repartition<double, D> d2;
  const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d, r[0], r[1]));
  const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d, r[0], r[1]));
  const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d, r[2], r[3]));
  const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d, r[2], r[3]));
  r[0] = hn::BitCast(d, hn::InterleaveLower(d2, low01, low23));
  r[1] = hn::BitCast(d, hn::InterleaveUpper(d2, low01, low23));
  r[2] = hn::BitCast(d, hn::InterleaveLower(d2, high01, high23));
  r[3] = hn::BitCast(d, hn::InterleaveUpper(d2, high01, high23));
}

/// out[d][keys] = rows[j][columns] for kN rows and kN columns.
HWY_INLINE void TransposeSquare(float* out, int keys, const float* rows, int columns) {
  V r[kN / 4][4];  // four rows each, corners transposed
  for (int g = 0; g < kN / 4; ++g) {
    for (int i = 0; i < 4; ++i) r[g][i] = Load(rows + (4 * g + i) * columns);
    TransposeCorners(F(), r[g]);
  }
  // Column 4 b + i collects block b of r[g][i] over g: a transposition of 128-bit blocks.
  for (int i = 0; i < 4; ++i) {
    float* to = out + i * keys;
#if HWY_TARGET == HWY_AVX3
    const __m512 low01 = _mm512_shuffle_f32x4(r[0][i].raw, r[1][i].raw, 0x44),
                 high01 = _mm512_shuffle_f32x4(r[0][i].raw, r[1][i].raw, 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(r[2][i].raw, r[3][i].raw, 0x44),
                 high23 = _mm512_shuffle_f32x4(r[2][i].raw, r[3][i].raw, 0xee);
    Store(V{_mm512_shuffle_f32x4(low01, low23, 0x88)}, to);
    Store(V{_mm512_shuffle_f32x4(low01, low23, 0xdd)}, to + 4 * keys);
    Store(V{_mm512_shuffle_f32x4(high01, high23, 0x88)}, to + 8 * keys);
    Store(V{_mm512_shuffle_f32x4(high01, high23, 0xdd)}, to + 12 * keys);
#elif HWY_TARGET == HWY_AVX2
    Store(hn::ConcatLowerLower(F(), r[1][i], r[0][i]), to);
    Store(hn::ConcatUpperUpper(F(), r[1][i], r[0][i]), to + 4 * keys);
#else
    Store(r[0][i], to);
#endif
  }
}

/// out[d][keys] = rows[j][columns]; keys and columns are whole panels, rows past n_rows become 0.
HWY_INLINE void Transpose(float* out, int keys, const float* rows, int columns, int n_rows) {
  int j = 0;
  for (; j + kN <= n_rows; j += kN)
    for (int d = 0; d < columns; d += kN) TransposeSquare(out + d * keys + j, keys, rows + j * columns + d, columns);
  for (; j < keys; ++j)
    for (int d = 0; d < columns; ++d) out[d * keys + j] = j < n_rows ? rows[j * columns + d] : 0.0f;
}

/// Dot products of a row become weights relative to its split's new maximum; `n` keys count.
HWY_INLINE void SoftmaxRow(float* scores, int n, float scale, bool rounded, float& max, float& sum, float* acc,
                           int columns) {
  V tile_max = Set(kMinusInfinity);
  const auto is_key = [n](int j) { return hn::FirstN(F(), static_cast<std::size_t>(std::clamp(n - j, 0, kN))); };
  for (int j = 0; j < n; j += kN) {
    const V s = hn::IfThenElse(is_key(j), hn::Mul(Load(scores + j), Set(scale)), Set(kMinusInfinity));
    tile_max = hn::IfThenElse(hn::Gt(s, tile_max), s, tile_max);
    Store(s, scores + j);
  }
  const float greatest = hn::GetLane(hn::MaxOfLanes(F(), tile_max));
  const float new_max = greatest > max ? greatest : max;
  const float keep = hn::GetLane(Exp(Set(max - new_max)));
  V lanes[kPanelVecs];
  for (V& lane : lanes) lane = Zero();
  for (int j = 0; j < n; j += kLanes) {
    for (int v = 0; v < kPanelVecs && j + v * kN < n; ++v) {
      V p = Exp(hn::Sub(Load(scores + j + v * kN), Set(new_max)));
      lanes[v] = hn::Add(lanes[v], p);
      if (rounded) p = RoundBf16(p);
      Store(p, scores + j + v * kN);
    }
  }
  sum = fmaf(sum, keep, SumLanes(lanes));
  max = new_max;
  for (int d = 0; d < columns; d += kN) Store(hn::Mul(Load(acc + d), Set(keep)), acc + d);
}

/// Takes keys first.. of one block into every row that sees some of them.
HWY_INLINE void AttendTile(const AttentionTile& tile, const AttentionRoom& room, int first, int split) {
  const KvLayer& kv = tile.kv;
  const int block = tile.table[first / kv.block_size], n_heads = tile.n_heads;
  const int first_token = std::max(0, first - tile.first_position);  // earlier tokens see none
  const int first_row = first_token * n_heads, n_rows = room.n_rows - first_row;
  PrefetchRows(kv.v, tile, block);
  float* copied = room.key_tile + std::int64_t{room.keys} * room.columns;
  Transpose(room.key_tile, room.keys, TileRows(kv.k, tile, block, room.columns, copied), room.columns, kv.block_size);
  const float* values = TileRows(kv.v, tile, block, room.columns, room.value_tile);

  Multiply({room.scores + first_row * room.keys, room.keys, tile.q + first_row * kv.head_dim, kv.head_dim,
            room.key_tile, room.keys, kv.head_dim, true},
           n_rows, room.keys);
  if (first + kv.block_size < tile.first_position + tile.n_tokens)
    PrefetchRows(kv.k, tile, tile.table[first / kv.block_size + 1]);
  const auto n_keys = [&](int token) { return std::min(kv.block_size, tile.first_position + token + 1 - first); };
  for (int row = first_row; row < room.n_rows; ++row) {
    const std::int64_t at = std::int64_t{split} * room.n_rows + row;
    SoftmaxRow(room.scores + row * room.keys, n_keys(row / n_heads), tile.scale, tile.round_probabilities, room.max[at],
               room.sum[at], room.acc_of(split, row), room.columns);
  }
  // Rows that see equally many keys go together: the heads of a token on the diagonal, all later tokens at once.
  for (int token = first_token; token < tile.n_tokens;) {
    const int n = n_keys(token);
    int end = token + 1;
    while (end < tile.n_tokens && n_keys(end) == n) ++end;
    const int row = token * n_heads;
    Multiply({room.acc_of(split, row), room.columns, room.scores + row * room.keys, room.keys, values, room.columns, n,
              false},
             (end - token) * n_heads, room.columns);
    token = end;
  }
}

/// Divides the sum over a row's splits, in ascending order.
HWY_INLINE void CombineSplits(float* out, const AttentionRoom& room, int row, int n_splits) {
  float max = kMinusInfinity, sum = 0.0f;
  for (int s = 0; s < n_splits; ++s) {
    const float m = room.max[std::int64_t{s} * room.n_rows + row];
    max = m > max ? m : max;
  }
  float* total = room.scores;  // every tile is done with them
  for (int d = 0; d < room.columns; d += kN) Store(Zero(), total + d);
  for (int s = 0; s < n_splits; ++s) {
    const std::int64_t at = std::int64_t{s} * room.n_rows + row;
    const float weight = hn::GetLane(Exp(Set(room.max[at] - max)));
    sum = fmaf(room.sum[at], weight, sum);
    const float* acc = room.acc_of(s, row);
    for (int d = 0; d < room.columns; d += kN)
      Store(hn::MulAdd(Load(acc + d), Set(weight), Load(total + d)), total + d);
  }
  const float inverse = 1.0f / sum;
  for (int d = 0; d < room.dim; ++d) out[d] = total[d] * inverse;
}

inline void Attend(const AttentionTile& tile, Scratch& scratch) {
  const int last_key = tile.first_position + tile.n_tokens;
  const int n_splits = (last_key + kSplitKeys - 1) / kSplitKeys;
  const AttentionRoom room(tile, n_splits, scratch);
  std::fill_n(room.max, n_splits * room.n_rows, kMinusInfinity);
  std::fill_n(room.sum, static_cast<std::size_t>(n_splits) * room.n_rows * (room.columns + 1), 0.0f);
  for (int first = 0; first < last_key; first += tile.kv.block_size) AttendTile(tile, room, first, first / kSplitKeys);
  for (int row = 0; row < room.n_rows; ++row) {
    const int n_keys = tile.first_position + row / tile.n_heads + 1;
    CombineSplits(tile.out + std::int64_t{row} * room.dim, room, row, (n_keys + kSplitKeys - 1) / kSplitKeys);
  }
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
