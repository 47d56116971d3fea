// What becomes of a product's accumulators. Kernels hold them as wgmma and mma.sync do: a quad of lanes has one row,
// lane c the columns 8 j + 2 c and the next of tile j. Epilogues take *pieces* (32 columns of one row, spread over a
// quad) or, at a matrix's ragged end and in narrow kernels, single pairs of columns; the bits are the same.
#pragma once
#include <type_traits>
#include <utility>

#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/qkv_epilogue.cuh"
#include "ops/cuda/row_norm.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

inline constexpr int kMaxGroups = 8;  // head_dim 256

/// total (+)= d, and d starts anew.
template <int BN>
__device__ __forceinline__ void add_segment(float (&d)[BN / 2], float (&total)[BN / 2], bool first) {
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) {
    total[i] = first ? d[i] : total[i] + d[i];
    d[i] = 0.0f;
  }
}

/// The share of piece `p` of row m + 8 `half` that this lane has in its accumulators.
template <int N>
__device__ __forceinline__ void piece_values(const float (&d)[N], int p, int half, PieceValues& v) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) v[j][i] = d[16 * p + 4 * j + 2 * half + i];
}

/// Calls work(i) with i = 0, kTurn, ... when accumulators i .. i + kTurn - 1 are the first of d, to which the others
/// move down. One piece of code serves them all: what a kernel runs only once a tile is otherwise longer than what an
/// SM keeps of it until the next layer.
template <int kTurn, int N, typename Work>
__device__ __forceinline__ void in_turns(float (&d)[N], const Work& work) {
  static_assert(N % kTurn == 0);
  if constexpr (N == kTurn) {
    work(0);
  } else {
#pragma unroll 1
    for (int i = 0; i < N; i += kTurn) {
      work(i);
#pragma unroll
      for (int to = 0; to + kTurn < N; ++to) d[to] = d[to + kTurn];
    }
  }
}

struct Nothing {};

/// What an epilogue reads of a pair of columns besides the sums, if it reads anything; and the pair's end.
template <typename Epilogue>
__device__ __forceinline__ auto read_pair(const Epilogue& epilogue, int m, int n) {
  if constexpr (requires { epilogue.read(m, n); })
    return epilogue.read(m, n);
  else
    return Nothing{};
}
/// All lanes of the warp call it.
template <typename Epilogue, typename Before>
__device__ __forceinline__ void store_pair(Epilogue& epilogue, int m, int n, float c0, float c1, const Before& before,
                                           bool valid) {
  if constexpr (std::is_same_v<Before, Nothing>) {
    if (valid) epilogue(m, n, c0, c1);
  } else {
    epilogue(m, n, c0, c1, before, valid);
  }
}

/// What this lane's rows m and m + 8 of a product are multiplied by, behind a norm in two parts (row_norm.cuh).
struct RowScales {
  float of_m = 1.0f, of_m8 = 1.0f;
  /// The first kCount accumulators.
  template <int kCount, int N>
  __device__ __forceinline__ void apply(float (&d)[N]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) d[i] *= i % 4 < 2 ? of_m : of_m8;
  }
};

/// Columns of a tile that are stored in one turn.
template <int BN>
inline constexpr int kTurnColumns = BN > 64 && BN % 64 == 0 ? 64 : BN;

/// What an epilogue reads of a turn's columns besides their sums, of this lane's rows m and m + 8: pieces, and pairs of
/// columns for what is no piece.
template <int BN, typename Epilogue>
struct BeforeTurn {
  static constexpr int kColumns = kTurnColumns<BN>, kPieces = kColumns / 32, kPairs = kColumns % 32 / 8;
  typename Epilogue::Fetched pieces[2][kPieces > 0 ? kPieces : 1];
  using Pair = decltype(read_pair(std::declval<const Epilogue&>(), 0, 0));
  Pair pairs[2][kPairs > 0 ? kPairs : 1];

  __device__ __forceinline__ void fetch(const Epilogue& epilogue, int m, int n0, int rows, int n_columns) {
    const int c = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m + 8 * half;
#pragma unroll
      for (int p = 0; p < kPieces; ++p)
        pieces[half][p] = epilogue.fetch(row, n0 + 32 * p, row < rows && n0 + 32 * p + 32 <= n_columns);
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
        if (const int n = n0 + 32 * kPieces + 8 * j + 2 * c; row < rows && n < n_columns)
          pairs[half][j] = read_pair(epilogue, row, n);
    }
  }
};

/// What a tile's first turn reads, asked for before the tile is summed.
template <int BN, typename Epilogue>
__device__ __forceinline__ BeforeTurn<BN, Epilogue> before_tile(const Epilogue& epilogue, int m, int n0, int rows,
                                                                int n_columns) {
  BeforeTurn<BN, Epilogue> turn{};
  turn.fetch(epilogue, m, n0, rows, n_columns);
  return turn;
}

/// A turn's columns, whose sums are the first of d. kWholePieces: the columns of a matrix are a multiple of 32, so
/// there is no ragged piece to make code for. All lanes of the warp take part.
template <int BN, typename Epilogue>
__device__ __forceinline__ void store_turn(const Epilogue& epilogue, const float (&d)[BN / 2], int m, int n0, int rows,
                                           int n_columns, const BeforeTurn<BN, Epilogue>& before) {
  using Before = BeforeTurn<BN, Epilogue>;
  constexpr bool kWhole = Epilogue::kWholePieces && BN % 32 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = m + 8 * half, c = threadIdx.x % 4;
    const auto pair = [&](int j, const auto& read) {
      const int n = n0 + 8 * j + 2 * c;
      const bool valid = row < rows && n < n_columns;
      store_pair(epilogue, row, n, d[4 * j + 2 * half], d[4 * j + 2 * half + 1], read(row, n, valid), valid);
    };
#pragma unroll
    for (int p = 0; p < Before::kPieces; ++p) {
      if (kWhole || n0 + 32 * p + 32 <= n_columns) {
        if (n0 + 32 * p >= n_columns) continue;
        PieceValues v;
        piece_values(d, p, half, v);
        epilogue.piece(row, n0 + 32 * p, v, before.pieces[half][p], row < rows);
        continue;
      }
      if constexpr (!kWhole)
#pragma unroll
        for (int j = 4 * p; j < 4 * p + 4; ++j)
          pair(j, [&](int at_row, int n, bool valid) {
            return valid ? read_pair(epilogue, at_row, n) : typename Before::Pair{};
          });
    }
#pragma unroll
    for (int j = 4 * Before::kPieces; j < Before::kColumns / 8; ++j)
      pair(j, [&](int, int, bool) { return before.pairs[half][j - 4 * Before::kPieces]; });
  }
}

/// Every element of a tile whose thread rows are m and m + 8; `before` is the first turn's.
template <int BN, typename Epilogue>
__device__ __forceinline__ void store_tile(const Epilogue& epilogue, float (&d)[BN / 2], int m, int n0, int rows,
                                           int n_columns, const RowScales& scales, BeforeTurn<BN, Epilogue> before) {
  constexpr int kColumns = kTurnColumns<BN>;
  in_turns<kColumns / 2>(d, [&](int i) {
    const int n = n0 + 2 * i;
    BeforeTurn<BN, Epilogue> next{};
    if (kColumns < BN && 2 * i + kColumns < BN) next.fetch(epilogue, m, n + kColumns, rows, n_columns);
    if constexpr (Epilogue::kAfterNorm) scales.template apply<kColumns / 2>(d);
    store_turn<BN>(epilogue, d, m, n, rows, n_columns, before);
    before = next;
  });
}

struct StoreFloat {
  static constexpr bool kWholeHeads = false, kWholePieces = false, kAfterNorm = true;
  float* out;
  std::int64_t stride;
  int n_columns;
  __device__ void operator()(int m, int n, float c0, float c1) const {
    float* to = out + m * stride + n;
    if (n + 1 < n_columns && stride % 2 == 0) {
      *reinterpret_cast<float2*>(to) = make_float2(c0, c1);
      return;
    }
    if (n < n_columns) to[0] = c0;
    if (n + 1 < n_columns) to[1] = c1;
  }
  using Fetched = Nothing;
  __device__ Nothing fetch(int, int, bool) const { return {}; }
  __device__ void piece(int m, int n, const PieceValues& v, Nothing, bool valid) const {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (valid) (*this)(m, n + 8 * j + 2 * (threadIdx.x % 4), v[j][0], v[j][1]);
  }
};

/// x += the product, and what the norm that follows wants of the new x. What `read` returns may be asked for before the
/// sums are there, and passed on with them.
struct AddResidual {
  static constexpr bool kWholeHeads = false, kWholePieces = true, kAfterNorm = false;
  __nv_bfloat16* x;
  int stride;
  NextNorm next{};
  __device__ __nv_bfloat162* at(int m, int n) const {
    return reinterpret_cast<__nv_bfloat162*>(x + static_cast<std::int64_t>(m) * stride + n);
  }
  struct Pair {
    __nv_bfloat162 x;
    float2 weight;
  };
  __device__ Pair read(int m, int n) const {
    return {*at(m, n), next.weight ? __ldg(reinterpret_cast<const float2*>(next.weight + n)) : float2{}};
  }
  __device__ void operator()(int m, int n, float c0, float c1, const Pair& before, bool valid) const {
    const float2 old = __bfloat1622float2(before.x);
    const __nv_bfloat162 sum = __floats2bfloat162_rn(old.x + c0, old.y + c1);
    if (valid) *at(m, n) = sum;
    if (next.weight) leave_pair(next, m, n, sum, before.weight, valid);
  }
  __device__ int4* place(int m, int n) const {
    return reinterpret_cast<int4*>(x + static_cast<std::int64_t>(m) * stride + n) + threadIdx.x % 4;
  }
  using Fetched = int4;
  __device__ int4 fetch(int m, int n, bool valid) const { return valid ? *place(m, n) : make_int4(0, 0, 0, 0); }
  __device__ void piece(int m, int n, const PieceValues& v, const int4& old, bool valid) const {
    const int at_column = n + threadIdx.x % 4 * 8;
    float4 weight[2] = {};
    if (next.weight) {
      weight[0] = __ldg(reinterpret_cast<const float4*>(next.weight + at_column));
      weight[1] = __ldg(reinterpret_cast<const float4*>(next.weight + at_column) + 1);
    }
    // From 2 columns of every tile a lane to the 8 of one: sums[i][p] becomes column 2 p + i of tile c.
    std::uint32_t sums[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] = __float_as_uint(v[j][i]);
      quad_transpose(sums[i]);
    }
    const int words[4] = {old.x, old.y, old.z, old.w};
    int added[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float2 pair = unpack_bf16(words[p]);
      added[p] =
          static_cast<int>(pack_bf16(pair.x + __uint_as_float(sums[0][p]), pair.y + __uint_as_float(sums[1][p])));
    }
    const int4 sum = make_int4(added[0], added[1], added[2], added[3]);
    if (valid) *place(m, n) = sum;
    if (next.weight) leave_piece(next, m, at_column, sum, weight[0], weight[1], valid);
  }
};

/// Weight rows alternate gate and up, so a thread holds both halves of one output.
struct GatedSilu {
  static constexpr bool kWholeHeads = false, kWholePieces = true, kAfterNorm = true;
  __nv_bfloat16* out;
  int stride;
  static __device__ float gated(float gate, float up) { return __fdividef(gate, 1.0f + __expf(-gate)) * up; }
  __device__ void operator()(int m, int n, float gate, float up) const {
    out[static_cast<std::int64_t>(m) * stride + n / 2] = __float2bfloat16_rn(gated(gate, up));
  }
  using Fetched = Nothing;
  __device__ Nothing fetch(int, int, bool) const { return {}; }
  __device__ void piece(int m, int n, const PieceValues& v, Nothing, bool valid) const {
    std::uint32_t w[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j] = __float_as_uint(gated(v[j][0], v[j][1]));
    quad_transpose(w);  // lane c: the four outputs of tile c
    if (!valid) return;
    *(reinterpret_cast<int2*>(out + static_cast<std::int64_t>(m) * stride + n / 2) + threadIdx.x % 4) =
        make_int2(pack_bf16(__uint_as_float(w[0]), __uint_as_float(w[1])),
                  pack_bf16(__uint_as_float(w[2]), __uint_as_float(w[3])));
  }
};

/// Where the CTAs of a cluster that share a head leave the sums of squares of its groups for each other.
struct HeadExchange {
  std::uint32_t sums;     // float [kMaxGroups][rows of the tile]
  std::uint32_t arrived;  // barrier that expects bytes(): once a kernel
  int tile_rows;
  int stride, rank;  // neighbours along the columns are `stride` ranks apart
  int groups_in_cta;

  static constexpr int bytes(int n_groups, int rows) { return n_groups * rows * 4; }

  /// This warp's sums of groups group0.. of a head with `n_groups`, to all CTAs that share it, its own too, and back:
  /// every group's of `row`. A warp's sums of one group and half are two pieces of four rows; each lane sends one piece
  /// to one CTA, for a store into another CTA costs by its number.
  template <int kOwn>
  __device__ __forceinline__ void run(const float (&own)[2][kOwn], int row, int group0, int n_groups,
                                      float (&squares)[2]) const {
    const int lane = threadIdx.x % 32, which = lane / 2 % (2 * kOwn), peer = lane / (4 * kOwn);
    float piece[4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int g = 0; g < kOwn; ++g)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float sum = __shfl_sync(~0u, own[half][g], (lane % 2 * 4 + i) * 4);
          if (which == half * kOwn + g) piece[i] = sum;
        }
    if (peer < n_groups / groups_in_cta)
      store_in_cta(sums + ((group0 + which % kOwn) * tile_rows + row - lane / 4 + which / kOwn * 8 + lane % 2 * 4) * 4,
                   piece[0], piece[1], piece[2], piece[3], arrived, rank + (peer - group0 / groups_in_cta) * stride);
    barrier_wait_cluster(arrived, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      squares[half] = 0.0f;
      for (int g = 0; g < n_groups; ++g) {
        float value;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(sums + (g * tile_rows + row + 8 * half) * 4));
        squares[half] += value;
      }
    }
  }
};

/// The qkv product's, for heads of kHeadDim: whole heads in a tile, one after the other, or a head spread over the CTAs
/// of a cluster. kByIds: rotations have position ids of their own.
template <int kHeadDim_, bool kByIds>
struct StoreHeads : QkvEpilogue {
  static constexpr bool kWholeHeads = true, kAfterNorm = true;
  static constexpr int kHeadDim = kHeadDim_, kGroups = kHeadDim / kGroup;

  /// Of thread rows m and m + 8: where they stand and go to.
  struct Rows {
    QkvRow row[2];
  };
  __device__ Rows rows_at(int m, int rows) const { return {{{*this, m, m < rows}, {*this, m + 8, m + 8 < rows}}}; }

  template <int BN>
  __device__ __forceinline__ void store(float (&d)[BN / 2], const Rows& at, int n0, int n_columns,
                                        const RowScales& scales, int tile_row, const HeadExchange& peers) const {
    if constexpr (BN >= kHeadDim) {
      in_turns<16 * kGroups>(d, [&](int i) {
        const int n = n0 + 2 * i;
        if (n >= n_columns) return;
        scales.template apply<16 * kGroups>(d);
        finish<kGroups>(d, n / kHeadDim, 0, at.row, [](const float(&own)[2][kGroups], float(&all)[2]) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            all[half] = 0.0f;
#pragma unroll
            for (int g = 0; g < kGroups; ++g) all[half] += own[half][g];
          }
        });
      });
    } else {
      if (n0 >= n_columns) return;
      const int first_group = n0 % kHeadDim / kGroup;
      scales.template apply<BN / 2>(d);
      finish<BN / kGroup>(d, n0 / kHeadDim, first_group, at.row,
                          [&](const float(&own)[2][BN / kGroup], float(&all)[2]) {
                            peers.run(own, tile_row, first_group, kGroups, all);
                          });
    }
  }

  /// kOwn groups of a head from first_group on, whose sums are the first of d. `sum_up` makes the head's sums of
  /// squares of these groups'. Angles, which are far away, are asked for one group ahead.
  template <int kOwn, int N, typename SumUp>
  __device__ __forceinline__ void finish(float (&d)[N], int head, int first_group, const QkvRow (&row)[2],
                                         const SumUp& sum_up) const {
    RowAngles<kByIds> angles[2] = {{*this, row[0], first_group}, {*this, row[1], first_group}};
    GroupFactors factors(*this, head, first_group);
    if (bias) {
#pragma unroll
      for (int g = 0; g < kOwn; ++g) {
        PieceValues more;
        load_group(*this, bias + head * kHeadDim, first_group + g, more);
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) d[16 * g + 4 * j + i] += more[j][i % 2];
      }
    }
    __nv_bfloat16* const to[2] = {row[0].destination(*this, head), row[1].destination(*this, head)};
    float scale[2] = {1.0f, 1.0f};
    if (norm_of(head)) {
      float squares[2][kOwn];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int g = 0; g < kOwn; ++g) {
          PieceValues v;
          piece_values(d, g, half, v);
          squares[half][g] = group_squares(v);
        }
      float all[2];
      sum_up(squares, all);
      scale[0] = head_scale(*this, all[0]), scale[1] = head_scale(*this, all[1]);
    }
#pragma unroll
    for (int g = 0; g < kOwn; ++g) {
      const int group = first_group + g, ahead = g + 1 < kOwn ? group + 1 : group;
      const RowAngles<kByIds> next[2] = {{*this, row[0], ahead}, {*this, row[1], ahead}};
      const GroupFactors next_factors(*this, head, ahead);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        PieceValues v;
        piece_values(d, g, half, v);
        finish_group(*this, to[half], head, group, v, scale[half], factors, angles[half]);
      }
      angles[0] = next[0], angles[1] = next[1], factors = next_factors;
    }
  }
};

}  // namespace monograph::cuda
