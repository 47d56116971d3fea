// Attention for few rows, a matter of latency: one cluster per (16 rows, kv head), each of its CTAs takes a split of
// 512 keys and the next one a cluster further. Eight warps share a step of 128 keys: each scores 16 keys, the weights
// meet in shared memory, each sums its columns of the values. Splits meet in the cluster's shared memory. Element for
// element the sums are those of the kernel for many rows.
#pragma once
#include <algorithm>

#include "ops/cuda/attention.cuh"

namespace monograph::cuda {

template <int D>
struct FewAttention {
  static constexpr int kRing = 3, kTileBytes = kKeys * D * 2, kQBytes = 16 * D * 2, kPBytes = 2 * 16 * 128;
  static constexpr int kShared = kQBytes + kPBytes + 2 * kRing * kTileBytes;
  static_assert(16 * D * 4 <= 2 * kRing * kTileBytes, "a split's result takes the ring's place");
};

/// Byte offset in a tile whose rows are D bf16 values, in 16-byte chunks permuted within each 128 bytes.
template <int D>
__device__ __forceinline__ std::uint32_t tile_offset(int row, int chunk) {
  constexpr int kRowBytes = D * 2;
  if constexpr (kRowBytes % 128 == 0) {
    return row * kRowBytes + (((chunk & ~7) | ((chunk ^ row) & 7)) << 4);
  } else if constexpr (kRowBytes > 128) {
    return row * kRowBytes + (((chunk & ~3) | ((chunk ^ row) & 3)) << 4);
  } else {
    constexpr int kChunks = kRowBytes / 16;
    return row * kRowBytes + (((chunk ^ (row / (8 / kChunks))) & (kChunks - 1)) << 4);
  }
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
/// The float at `address` of this CTA's shared memory, but in CTA `rank` of the cluster.
__device__ __forceinline__ float cluster_load(std::uint32_t address, int rank) {
  float value;
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}\n"
      : "=f"(value)
      : "r"(address), "r"(rank)
      : "memory");
  return value;
}

template <int D>
__global__ void __launch_bounds__(256, D <= 128 ? 2 : 1) few_attention_kernel(AttentionArguments arg, int cluster) {
#if __CUDA_ARCH__ >= 900
  using Tile = FewAttention<D>;
  constexpr int kRing = Tile::kRing, kSteps = D / 16, kChunks = D / 8, kColumns = (D / 8 + 7) / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(16) float tops[16][8];
  __shared__ float2 groups[8][32];
  __shared__ float split_base[16], split_sum[16];
  const std::uint32_t at_q = shared_address(shared), at_p = at_q + Tile::kQBytes, at_k = at_p + Tile::kPBytes,
                      at_v = at_k + kRing * Tile::kTileBytes;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int rank = blockIdx.x % cluster, kv_head = blockIdx.y;
  const AttentionItem* at_item = arg.work.items + blockIdx.x / cluster;
  let_successor_start();
  wait_for_predecessor();
  const int n_items = *arg.work.n_items;
  const AttentionItem item = *at_item;  // harmless past the end: the list is longer than any grid
  if (static_cast<int>(blockIdx.x) / cluster >= n_items) return;
  const int group = arg.work.heads_per_kv, row0 = item.tile * 16, n_rows = item.length * group;
  const int n_keys = item.prefix + (min(row0 + 16, n_rows) - 1) / group + 1, n_tiles = (n_keys + kKeys - 1) / kKeys;
  const int n_splits = (n_tiles + kSplitTiles - 1) / kSplitTiles;
  if (n_splits == 1 && rank > 0) return;
  const std::int32_t* table = arg.table + static_cast<std::int64_t>(item.slot) * arg.table_width;

  int position[2];
  for (int i = 0; i < 2; ++i) position[i] = item.prefix + (row0 + lane / 4 + 8 * i) / group;
  std::uint32_t q[kSteps][4];
  float acc[kColumns][4], base[2], sum[2];

  // The sums of one split, in acc, base and sum.
  const auto sum_split = [&](int split, bool first) {
    const int first_tile = split * kSplitTiles, n_local = min(kSplitTiles, n_tiles - first_tile);
    const std::int32_t* blocks = split == 0 && arg.first_group ? at_item->blocks : table + first_tile;
    const auto fetch = [&](std::uint32_t to, const __nv_bfloat16* data, int tile) {
      if (tile >= n_local) return;
      const __nv_bfloat16* from =
          data + (static_cast<std::int64_t>(blocks[tile]) * arg.n_kv_heads + kv_head) * kKeys * D;
      to += tile % kRing * Tile::kTileBytes;
      // Rows that nobody sees stay zero: a weight of zero times a NaN is a NaN.
      const int n_seen = n_keys - (first_tile + tile) * kKeys;
#pragma unroll
      for (int i = thread; i < kKeys * kChunks; i += 256) {
        const int row = i / kChunks, chunk = i % kChunks;
        copy16(to + tile_offset<D>(row, chunk), from + row * D + chunk * 8, row < n_seen);
      }
    };
    if (first)
      for (int i = thread; i < 16 * kChunks; i += 256) {
        const int r = row0 + i / kChunks, chunk = i % kChunks;
        const bool valid = r < n_rows;
        copy16(at_q + tile_offset<D>(i / kChunks, chunk),
               arg.q + row_offset<D>(arg, item, kv_head, valid ? r : row0) + chunk * 8, valid);
      }
    fetch(at_k, arg.k, 0);
    fetch(at_k, arg.k, 1);
    commit_copies();
    fetch(at_v, arg.v, 0);
    fetch(at_v, arg.v, 1);
    commit_copies();
    fetch(at_k, arg.k, 2);
    fetch(at_v, arg.v, 2);
    commit_copies();
    for (int i = 0; i < 2; ++i) base[i] = -INFINITY, sum[i] = 0.0f;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      for (int i = 0; i < 4; ++i) acc[j][i] = 0.0f;

    for (int tile = 0; tile < n_local; tile += 2) {
      if (tile == 0)
        wait_copies<2>();
      else
        wait_copies<0>();
      __syncthreads();
      if (tile > 0) {
        fetch(at_v, arg.v, tile + 1);
        fetch(at_v, arg.v, tile + 2);
        commit_copies();
      } else if (first) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          load_matrix_x4(q[step], at_q + tile_offset<D>(lane % 16, step * 2 + lane / 16));
      }
      float s[2][4] = {};
      const std::uint32_t own_k = at_k + (tile + warp / 4) % kRing * Tile::kTileBytes;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        std::uint32_t b[4];
        load_matrix_x4(b, own_k + tile_offset<D>(warp % 4 * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
        const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
        mma(s[0], q[step], b0);
        mma(s[1], q[step], b1);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = (first_tile + tile) * kKeys + warp * 16 + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (key + j / 2 * 8 + j % 2 > position[i]) s[j / 2][2 * i + j % 2] = -INFINITY;
        const float top = quad_max(fmaxf(fmaxf(s[0][2 * i], s[0][2 * i + 1]), fmaxf(s[1][2 * i], s[1][2 * i + 1])));
        if (lane % 4 == 0) tops[lane / 4 + 8 * i][warp] = top;
      }
      __syncthreads();
      fetch(at_k, arg.k, tile + 3);
      fetch(at_k, arg.k, tile + 4);
      commit_copies();
      float factor[2][2];  // of a row, before each of the step's tiles
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 4 + 8 * i;
        float shift = 0.0f;
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const float4 top = *reinterpret_cast<const float4*>(&tops[row][4 * t]);
          const float old = base[i];
          base[i] = next_base(old, fmaxf(fmaxf(top.x, top.y), fmaxf(top.z, top.w)), arg.scale_log2);
          factor[i][t] = rescale(old, base[i]);
          if (t == warp / 4) shift = shift_of(base[i]);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& w = s[j / 2][2 * i + j % 2];
          w = weight(w, arg.scale_log2, shift);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const std::uint32_t to = at_p + warp / 4 * 2048 + swizzled(row, warp % 4 * 2 + n) + lane % 4 * 4;
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pack_bf16(s[n][2 * i], s[n][2 * i + 1])) : "memory");
        }
      }
      groups[warp][lane] =
          make_float2(group_sum(s[0][0], s[0][1], s[1][0], s[1][1]), group_sum(s[0][2], s[0][3], s[1][2], s[1][3]));
      if (tile == 0)
        wait_copies<2>();
      else
        wait_copies<1>();
      __syncthreads();
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        const float2 g0 = groups[4 * t][lane], g1 = groups[4 * t + 1][lane], g2 = groups[4 * t + 2][lane],
                     g3 = groups[4 * t + 3][lane];
        sum[0] = fmaf(sum[0], factor[0][t], tile_sum(g0.x, g1.x, g2.x, g3.x));
        sum[1] = fmaf(sum[1], factor[1][t], tile_sum(g0.y, g1.y, g2.y, g3.y));
        if (tile + t >= n_local) continue;
        const std::uint32_t from = at_v + (tile + t) % kRing * Tile::kTileBytes;
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[j][i] *= factor[i / 2][t];
#pragma unroll
        for (int step = 0; step < 4; step += 2) {
          std::uint32_t p[2][4];
          load_matrix_x4(p[0], at_p + t * 2048 + swizzled(lane % 16, step * 2 + lane / 16));
          load_matrix_x4(p[1], at_p + t * 2048 + swizzled(lane % 16, step * 2 + 2 + lane / 16));
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            const int column = warp + 8 * j;
            if (column >= kChunks) continue;
            std::uint32_t b[4];
            load_matrix_x4_transposed(b, from + tile_offset<D>(step * 16 + lane, column));
            const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
            mma(acc[j], p[0], b0);
            mma(acc[j], p[1], b1);
          }
        }
      }
    }
    wait_copies<0>();
    for (int i = 0; i < 2; ++i) sum[i] = quad_sum(sum[i]);
  };

  if (n_splits == 1) {
    sum_split(0, true);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row0 + lane / 4 + 8 * i;
      if (r >= n_rows) continue;
      SplitTotal total;
      total.close(base[i], sum[i]);
      const float inverse = 1.0f / total.sum;
      __nv_bfloat16* to = arg.out + row_offset<D>(arg, item, kv_head, r);
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        if (warp + 8 * j < kChunks)
          *reinterpret_cast<__nv_bfloat162*>(to + (warp + 8 * j) * 8 + lane % 4 * 2) = __floats2bfloat162_rn(
              total.combine(0.0f, acc[j][2 * i]) * inverse, total.combine(0.0f, acc[j][2 * i + 1]) * inverse);
    }
    return;
  }

  // Each thread of the cluster combines its own elements, of one row, of all splits.
  constexpr int kMost = D / 16;
  const int row = thread / 16, r = row0 + row;
  float combined[kMost];
  SplitTotal total;
#pragma unroll
  for (int e = 0; e < kMost; ++e) combined[e] = 0.0f;
  auto* result = reinterpret_cast<float*>(shared + Tile::kQBytes + Tile::kPBytes);  // [16, D]
  for (int first = 0; first < n_splits; first += cluster) {
    if (first + rank < n_splits) {
      sum_split(first + rank, first == 0);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int to = lane / 4 + 8 * i;
        if (warp == 0 && lane % 4 == 0) split_base[to] = base[i], split_sum[to] = sum[i];
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (warp + 8 * j < kChunks)
            *reinterpret_cast<float2*>(result + to * D + (warp + 8 * j) * 8 + lane % 4 * 2) =
                make_float2(acc[j][2 * i], acc[j][2 * i + 1]);
      }
    }
    cluster_sync();
    for (int k = 0; k < min(cluster, n_splits - first); ++k) {
      total.close(cluster_load(shared_address(&split_base[row]), k), cluster_load(shared_address(&split_sum[row]), k));
#pragma unroll
      for (int e = 0; e < kMost; ++e)
        if (const int column = (e * cluster + rank) * 16 + thread % 16; column < D)
          combined[e] = total.combine(combined[e], cluster_load(shared_address(result + row * D + column), k));
    }
    cluster_sync();
  }
  if (r >= n_rows) return;
  __nv_bfloat16* to = arg.out + row_offset<D>(arg, item, kv_head, r);
#pragma unroll
  for (int e = 0; e < kMost; ++e)
    if (const int column = (e * cluster + rank) * 16 + thread % 16; column < D)
      to[column] = __float2bfloat16_rn(combined[e] * (1.0f / total.sum));
#endif
}

template <int D>
void launch_few_attention(cudaStream_t stream, const AttentionArguments& arg, int max_items) {
  auto kernel = few_attention_kernel<D>;
  static const bool ready = (allow_shared(kernel, FewAttention<D>::kShared), true);
  static_cast<void>(ready);
  // As many CTAs an item as its sequence may have splits, unless the items alone fill the chip.
  const int max_splits = (arg.table_width + kSplitTiles - 1) / kSplitTiles;
  int cluster = 1;
  while (cluster < 8 && cluster < max_splits && max_items * arg.n_kv_heads * cluster * 2 <= 1056) cluster *= 2;
  launch_clusters(stream, dim3(max_items * cluster, arg.n_kv_heads), 256, FewAttention<D>::kShared, cluster, kernel,
                  arg, cluster);
}

}  // namespace monograph::cuda
