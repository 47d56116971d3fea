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
template <int BN>
__device__ __forceinline__ void piece_values(const float (&d)[BN / 2], int p, int half, PieceValues& v) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) v[j][i] = d[16 * p + 4 * j + 2 * half + i];
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

/// The accumulators of this lane's rows m and m + 8, multiplied.
template <int N>
__device__ __forceinline__ void scale_rows(float (&d)[N], float of_m, float of_m8) {
#pragma unroll
  for (int i = 0; i < N; ++i) d[i] *= i % 4 < 2 ? of_m : of_m8;
}

/// What an epilogue reads of a tile besides its sums, of this lane's rows m and m + 8: pieces, and pairs of columns for
/// what is no piece. Small tiles ask for it before they sum.
template <int BN, typename Epilogue>
struct BeforeTile {
  static constexpr int kPieces = BN / 32, kPairs = BN % 32 / 8;
  static constexpr bool kEarly = BN <= 64;
  typename Epilogue::Fetched pieces[2][kPieces > 0 ? kPieces : 1];
  using Pair = decltype(read_pair(std::declval<const Epilogue&>(), 0, 0));
  Pair pairs[2][kPairs > 0 ? kPairs : 1];

  __device__ __forceinline__ void fetch(const Epilogue& epilogue, int half, int m, int n0, int rows, int n_columns) {
    const int row = m + 8 * half, c = threadIdx.x % 4;
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
      pieces[half][p] = epilogue.fetch(row, n0 + 32 * p, row < rows && n0 + 32 * p + 32 <= n_columns);
#pragma unroll
    for (int j = 0; j < kPairs; ++j)
      if (const int n = n0 + 32 * kPieces + 8 * j + 2 * c; row < rows && n < n_columns)
        pairs[half][j] = read_pair(epilogue, row, n);
  }
};

template <int BN, typename Epilogue>
__device__ __forceinline__ BeforeTile<BN, Epilogue> before_tile(const Epilogue& epilogue, int m, int n0, int rows,
                                                                int n_columns) {
  BeforeTile<BN, Epilogue> before{};
  if constexpr (before.kEarly)
    for (int half = 0; half < 2; ++half) before.fetch(epilogue, half, m, n0, rows, n_columns);
  return before;
}

/// Every element of a tile whose thread rows are m and m + 8. kWholePieces: the columns of a matrix are a multiple of
/// 32, so there is no ragged piece to make code for, of which every kernel of a step has to be fetched anew. All lanes
/// of the warp take part.
template <int BN, typename Epilogue>
__device__ __forceinline__ void store_pieces(const Epilogue& epilogue, const float (&d)[BN / 2], int m, int n0,
                                             int rows, int n_columns, BeforeTile<BN, Epilogue> before) {
  constexpr int kPieces = BN / 32;
  constexpr bool kWhole = Epilogue::kWholePieces && BN % 32 == 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = m + 8 * half, c = threadIdx.x % 4;
    // What a row's pieces read is asked for before the first of them is stored.
    if constexpr (!before.kEarly) before.fetch(epilogue, half, m, n0, rows, n_columns);
    const auto pair = [&](int j, const auto& read) {
      const int n = n0 + 8 * j + 2 * c;
      const bool valid = row < rows && n < n_columns;
      store_pair(epilogue, row, n, d[4 * j + 2 * half], d[4 * j + 2 * half + 1], read(row, n, valid), valid);
    };
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      if (kWhole || n0 + 32 * p + 32 <= n_columns) {
        if (n0 + 32 * p >= n_columns) continue;
        PieceValues v;
        piece_values<BN>(d, p, half, v);
        epilogue.piece(row, n0 + 32 * p, v, before.pieces[half][p], row < rows);
        continue;
      }
      if constexpr (!kWhole)
#pragma unroll
        for (int j = 4 * p; j < 4 * p + 4; ++j)
          pair(j, [&](int at_row, int n, bool valid) {
            return valid ? read_pair(epilogue, at_row, n) : typename decltype(before)::Pair{};
          });
    }
#pragma unroll
    for (int j = 4 * kPieces; j < BN / 8; ++j)
      pair(j, [&](int, int, bool) { return before.pairs[half][j - 4 * kPieces]; });
  }
}

struct StoreFloat {
  static constexpr bool kWholeHeads = false, kWholePieces = false;
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
  static constexpr bool kWholeHeads = false, kWholePieces = true;
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
  static constexpr bool kWholeHeads = false, kWholePieces = true;
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

/// Where CTAs that share a head leave the sums of squares of their groups for each other.
struct HeadExchange {
  std::uint32_t sums;     // float [kMaxGroups][rows of the tile]
  std::uint32_t arrived;  // barrier, counting bytes
  int tile_rows;
  int stride, rank;  // neighbours along the columns are `stride` ranks apart

  /// This CTA's sums of groups first.. of a head with `n_groups`, to all its peers and back: every group's of `row`.
  /// Once a kernel. A warp's sums of one group and half are two pieces of four rows; each lane sends one piece to one
  /// peer, for a store into another CTA costs by its number.
  template <int kOwn>
  __device__ __forceinline__ void run(const float (&own)[2][kOwn], int row, int group0, int n_groups,
                                      float (&squares)[2]) const {
    const int lane = threadIdx.x % 32, first = group0 / kOwn, which = lane / 2 % (2 * kOwn), peer = lane / (4 * kOwn);
    if (threadIdx.x == 128) barrier_expect(arrived, n_groups * tile_rows * 4);
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
    if (peer < n_groups / kOwn)
      store_in_cta(sums + ((group0 + which % kOwn) * tile_rows + row - lane / 4 + which / kOwn * 8 + lane % 2 * 4) * 4,
                   piece[0], piece[1], piece[2], piece[3], arrived, rank + (peer - first) * stride);
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

/// The qkv product's: whole heads in a tile, or a head spread over the CTAs of a cluster.
struct StoreHeads : QkvEpilogue {
  static constexpr bool kWholeHeads = true;

  /// Head and group of a tile's pieces, one after the other.
  struct Place {
    int head, group;
    __device__ void advance(int n_groups) {
      if (++group == n_groups) group = 0, ++head;
    }
  };

  /// Of thread rows m and m + 8: where they stand and go to.
  struct Rows {
    QkvRow row[2];
  };
  __device__ Rows rows_at(int m, int rows) const { return {{{*this, m, m < rows}, {*this, m + 8, m + 8 < rows}}}; }

  template <int BN>
  __device__ __forceinline__ void store(const float (&d)[BN / 2], const Rows& at, int n0, int n_columns, int tile_row,
                                        const HeadExchange& peers) const {
    const QkvRow(&row)[2] = at.row;
    const Place first{n0 / head_dim, n0 % head_dim / kGroup};
    const int n_pieces = min(BN / kGroup, (n_columns - n0) / kGroup);
    const RowAngles<false> angles[2] = {{*this, row[0], 0}, {*this, row[1], 0}};
    float scale[2][BN / kGroup];
    scales<BN>(d, first, n_pieces, tile_row, peers, scale);
    if (position_ids) return finish<BN, true>(d, first, n_pieces, row, scale);
    if (BN % 128 == 0 && head_dim == 128) return finish_by_groups<BN, 4>(d, first.head, n_pieces, row, scale, angles);
    if (BN % 128 == 0 && head_dim == 64) return finish_by_groups<BN, 2>(d, first.head, n_pieces, row, scale, angles);
    finish<BN, false>(d, first, n_pieces, row, scale);
  }

  /// Of every piece, the factor that its head's norm multiplies by.
  template <int BN>
  __device__ __forceinline__ void scales(const float (&d)[BN / 2], Place place, int n_pieces, int tile_row,
                                         const HeadExchange& peers, float (&scale)[2][BN / kGroup]) const {
    constexpr int kPieces = BN / kGroup;
    if (!q_norm && !k_norm) return;
    const int n_groups = head_dim / kGroup;
    const Place first = place;
    float squares[2][kPieces];
#pragma unroll
    for (int p = 0; p < kPieces; ++p, place.advance(n_groups))
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        PieceValues v;
        piece_values<BN>(d, p, half, v);
        if (p < n_pieces) add_bias(*this, place.head, place.group, v);
        squares[half][p] = group_squares(v);
      }
    if (BN < head_dim) {
      if (n_pieces <= 0 || !norm_of(first.head)) return;
      float head[2];
      peers.run<kPieces>(squares, tile_row, first.group, n_groups, head);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int p = 0; p < kPieces; ++p) scale[half][p] = p == 0 ? head_scale(*this, head[half]) : scale[half][0];
      return;
    }
    place = first;
#pragma unroll
    for (int p = 0; p < kPieces; ++p, place.advance(n_groups))
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (p > 0 && place.group > 0) {
          scale[half][p] = scale[half][p - 1];
          continue;
        }
        float sum = 0.0f;
#pragma unroll
        for (int g = p; g < kPieces; ++g)
          if (g < p + n_groups) sum += squares[half][g];
        scale[half][p] = head_scale(*this, sum);
      }
  }

  /// The pieces of heads that have kGroups groups each and lie in the tile whole, group by group: a row's angles, which
  /// are far away, are read once for all heads, and asked for one group ahead.
  template <int BN, int kGroups>
  __device__ __forceinline__ void finish_by_groups(const float (&d)[BN / 2], int first_head, int n_pieces,
                                                   const QkvRow (&row)[2], const float (&scale)[2][BN / kGroup],
                                                   const RowAngles<false> (&first)[2]) const {
    RowAngles<false> angles[2] = {first[0], first[1]};
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int ahead = group + 1 < kGroups ? group + 1 : group;
      const RowAngles<false> next[2] = {{*this, row[0], ahead}, {*this, row[1], ahead}};
#pragma unroll
      for (int p = group; p < BN / kGroup; p += kGroups) {
        if (p >= n_pieces) break;
        const int head = first_head + p / kGroups;
        const GroupFactors factors(*this, head, group);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          PieceValues v;
          piece_values<BN>(d, p, half, v);
          add_bias(*this, head, group, v);
          finish_group<false>(*this, row[half], head, group, v, scale[half][p], factors, angles[half]);
        }
      }
      angles[0] = next[0], angles[1] = next[1];
    }
  }

  template <int BN, bool kByIds>
  __device__ __forceinline__ void finish(const float (&d)[BN / 2], Place place, int n_pieces, const QkvRow (&row)[2],
                                         const float (&scale)[2][BN / kGroup]) const {
    const int n_groups = head_dim / kGroup;
#pragma unroll
    for (int p = 0; p < BN / kGroup; ++p, place.advance(n_groups)) {
      if (p >= n_pieces) break;
      const GroupFactors factors(*this, place.head, place.group);
      const RowAngles<kByIds> angles[2] = {{*this, row[0], place.group}, {*this, row[1], place.group}};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        PieceValues v;
        piece_values<BN>(d, p, half, v);
        add_bias(*this, place.head, place.group, v);
        finish_group<kByIds>(*this, row[half], place.head, place.group, v, scale[half][p], factors, angles[half]);
      }
    }
  }
};

}  // namespace monograph::cuda
