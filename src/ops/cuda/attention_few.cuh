// Attention for few rows, a matter of latency: a cluster of eight CTAs per (16 rows, kv head). In a split of 512 keys
// each CTA scores one tile of 64 keys and sums its share of the values' columns over all of them; the tiles' largest
// scores and the weights are pushed into every CTA's shared memory. Warps 4 to 7 score, warps 0 to 3 sum, a split
// behind them. A sequence of one tile stays in one CTA. Element for element the sums are those of the kernel for many
// rows.
#pragma once
#include "ops/cuda/attention.cuh"
#include "ops/cuda/cluster.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

inline constexpr int kCluster = 8;

/// Byte offsets in shared memory. Values lie in columns of 8, one below the other.
template <int D>
struct FewAttention {
  static constexpr int kColumnTiles = D / 8, kOwnColumns = (kColumnTiles + kCluster - 1) / kCluster;
  static constexpr int kRowFloats = 4 * kSplitTiles + 4;  // largest scores of a row's groups of 16 keys, and padding
  static constexpr int kPBytes = kSplitTiles * 16 * 128, kVBytes = kSplitTiles * kKeys * kOwnColumns * 16,
                       kGroupBytes = kSplitTiles * 4 * 32 * 8;
  static constexpr int kQ = 0, kK = kQ + 16 * D * 2, kV = kK + kKeys * D * 2, kP = kV + 2 * kVBytes,
                       kGroups = kP + 2 * kPBytes, kTops = kGroups + 2 * kGroupBytes,
                       kShared = kTops + 16 * kRowFloats * 4;
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

/// Stores to this CTA's shared memory, or to that of any CTA of the cluster. A CTA that is alone meets at barriers of
/// its own, which order plain stores; stores to a cluster are ordered by the cluster's.
template <bool kHere>
__device__ __forceinline__ void store(std::uint32_t to, std::uint32_t value) {
  if constexpr (kHere)
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
  else
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
template <bool kHere>
__device__ __forceinline__ void store(std::uint32_t to, float a, float b) {
  if constexpr (kHere)
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
  else
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}
/// Calls write(address) with `address` of this CTA's shared memory in CTAs first, first + step, ... of the cluster, or
/// only here.
template <bool kHere, typename Write>
__device__ __forceinline__ void push_to(int first, int step, std::uint32_t address, const Write& write) {
  if constexpr (kHere) {
    if (first == 0) write(address);
  } else {
#pragma unroll
    for (int rank = first; rank < kCluster; rank += step) write(in_cta(address, rank));
  }
}
/// A barrier of the 128 threads of one role.
__device__ __forceinline__ void role_sync(int role) { asm volatile("bar.sync %0, 128;" ::"r"(1 + role) : "memory"); }

/// What a CTA works on: rows row0 .. row0 + n_rows of a sequence (at most 16), over its first n_keys keys.
struct FewItem {
  const AttentionItem* at;
  int first_token, prefix, kv_head, row0, n_rows, n_keys, n_tiles, rank;
  const std::int32_t* table;
};

template <int D, bool kAlone>
__device__ __forceinline__ void few_attention(const AttentionArguments& arg, const FewItem& item,
                                              unsigned char* shared) {
  using Shared = FewAttention<D>;
  constexpr int kSteps = D / 16, kChunks = D / 8;
  const std::uint32_t base = shared_address(shared);
  const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32, group = arg.work.heads_per_kv;
  const int n_splits = kAlone ? 1 : (item.n_tiles + kSplitTiles - 1) / kSplitTiles;
  const int first = kAlone ? 0 : item.rank;  // this CTA's tile of a split
  const auto block_rows = [&](const __nv_bfloat16* data, int tile) {
    const std::int32_t block = tile < kSplitTiles && arg.first_group ? item.at->blocks[tile] : item.table[tile];
    return data + (static_cast<std::int64_t>(block) * arg.n_kv_heads + item.kv_head) * kKeys * D;
  };
  const auto local_tiles = [&](int split) { return kAlone ? 1 : min(kSplitTiles, item.n_tiles - split * kSplitTiles); };
  const auto row_tops = [&](int i, int tile) {
    const float4 tops = *reinterpret_cast<const float4*>(shared + Shared::kTops +
                                                         ((lane / 4 + 8 * i) * Shared::kRowFloats + 4 * tile) * 4);
    return fmaxf(fmaxf(tops.x, tops.y), fmaxf(tops.z, tops.w));
  };
  // Two meetings a split, of the cluster or of the CTA that is alone: the largest scores are there; the weights are. A
  // CTA that is alone has one split and meets once more at its start; it needs no barrier of one role.
  const auto arrive = [] {
    if constexpr (!kAlone) cluster_arrive();
  };
  const auto role_meet = [](int role) {
    if constexpr (!kAlone) role_sync(role);
  };
  const auto meet = [] {
    if constexpr (kAlone)
      asm volatile("barrier.sync 3, 256;" ::: "memory");  // roles meet in different places: not __syncthreads()
    else
      cluster_wait();
  };

  if (threadIdx.x >= 128) {
    // Scores. Only this CTA's tile of each split, warp by warp 16 keys.
    for (int i = thread; i < 16 * kChunks; i += 128) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool valid = row < item.n_rows;
      copy16(
          base + Shared::kQ + tile_offset<D>(row, chunk),
          arg.q + row_offset<D>(arg, item.first_token, item.kv_head, valid ? item.row0 + row : item.row0) + chunk * 8,
          valid);
    }
    const auto fetch_keys = [&](int split) {
      const int tile = split * kSplitTiles + first;
      if (tile >= item.n_tiles) return;
      const __nv_bfloat16* from = block_rows(arg.k, tile);
#pragma unroll
      for (int i = thread; i < kKeys * kChunks; i += 128) {
        const int row = i / kChunks, chunk = i % kChunks;
        copy16(base + Shared::kK + tile_offset<D>(row, chunk), from + row * D + chunk * 8,
               tile * kKeys + row < item.n_keys);
      }
    };
    fetch_keys(0);
    commit_copies();
    std::uint32_t q[kSteps][4];
    for (int split = 0; split < n_splits; ++split) {
      const bool works = first < local_tiles(split);
      wait_copies<0>();
      if constexpr (kAlone)
        meet();
      else
        role_sync(1);
      if (split == 0) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          load_matrix_x4(q[step], base + Shared::kQ + tile_offset<D>(lane % 16, step * 2 + lane / 16));
      }
      float s[2][4] = {};
      if (works) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          std::uint32_t b[4];
          load_matrix_x4(
              b, base + Shared::kK + tile_offset<D>(warp * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
          const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
          mma(s[0], q[step], b0);
          mma(s[1], q[step], b1);
        }
      }
      role_meet(1);
      if (split + 1 < n_splits) fetch_keys(split + 1);
      commit_copies();
      if (split > 0) meet();  // the weights before these have been pushed
      if (works) {
        const int key = (split * kSplitTiles + first) * kKeys + warp * 16 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = lane / 4 + 8 * i, position = item.prefix + (item.row0 + row) / group;
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (key + j / 2 * 8 + j % 2 > position) s[j / 2][2 * i + j % 2] = -INFINITY;
          const float top = quad_max(fmaxf(fmaxf(s[0][2 * i], s[0][2 * i + 1]), fmaxf(s[1][2 * i], s[1][2 * i + 1])));
          const std::uint32_t to = base + Shared::kTops + (row * Shared::kRowFloats + 4 * first + warp) * 4;
          if (row < item.n_rows)
            push_to<kAlone>(lane % 4, 4, to, [&](std::uint32_t at) { store<kAlone>(at, __float_as_uint(top)); });
        }
      }
      arrive();
      meet();
      if (works) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float row_base = -INFINITY;
          for (int tile = 0; tile <= first; ++tile) row_base = next_base(row_base, row_tops(i, tile), arg.scale_log2);
          const float shift = shift_of(row_base);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float& w = s[j / 2][2 * i + j % 2];
            w = weight(w, arg.scale_log2, shift);
          }
        }
        const float sum0 = group_sum(s[0][0], s[0][1], s[1][0], s[1][1]),
                    sum1 = group_sum(s[0][2], s[0][3], s[1][2], s[1][3]);
        push_to<kAlone>(0, 1, base, [&](std::uint32_t at) {
          const std::uint32_t to_p = at + Shared::kP + split % 2 * Shared::kPBytes + first * 2048 + lane % 4 * 4;
          if (lane / 4 < item.n_rows)
            store<kAlone>(at + Shared::kGroups + split % 2 * Shared::kGroupBytes + ((first * 4 + warp) * 32 + lane) * 8,
                          sum0, sum1);
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (const int row = lane / 4 + 8 * i; row < item.n_rows) {
              store<kAlone>(to_p + swizzled(row, warp * 2), pack_bf16(s[0][2 * i], s[0][2 * i + 1]));
              store<kAlone>(to_p + swizzled(row, warp * 2 + 1), pack_bf16(s[1][2 * i], s[1][2 * i + 1]));
            }
        });
      }
      arrive();
    }
    meet();
    wait_copies<0>();
    return;
  }

  // Values: this CTA's columns, warp by warp 8 of them at a time.
  constexpr int kMost = ((kAlone ? kChunks : Shared::kOwnColumns) + 3) / 4;  // columns of 8 a warp
  const int first_column = kAlone ? 0 : item.rank * Shared::kOwnColumns,
            n_columns = kAlone ? kChunks : min(Shared::kOwnColumns, kChunks - first_column);
  const int column_bytes = (kAlone ? 1 : kSplitTiles) * kKeys * 16;
  const auto fetch_columns = [&]<int kWidth>(int split) {
    const int first_tile = split * kSplitTiles, n = local_tiles(split) * kKeys * kWidth;
#pragma unroll 4
    for (int i = thread; i < n; i += 128) {
      const int key = i / kWidth, column = i % kWidth;
      if (column >= n_columns) continue;
      // Rows that nobody sees are zero: a weight of zero times a NaN is a NaN.
      copy16(base + Shared::kV + split % 2 * Shared::kVBytes + column * column_bytes + key * 16,
             block_rows(arg.v, first_tile + key / kKeys) + key % kKeys * D + (first_column + column) * 8,
             first_tile * kKeys + key < item.n_keys);
    }
  };
  const auto fetch_values = [&](int split) {
    if (split < n_splits) {
      if constexpr (kAlone)
        fetch_columns.template operator()<kChunks>(split);
      else
        fetch_columns.template operator()<Shared::kOwnColumns>(split);
    }
    commit_copies();
  };
  fetch_values(0);
  fetch_values(1);
  float acc[kMost][4], total[kMost][4], row_base[2], sum[2], factor[2][kSplitTiles];
  SplitTotal totals[2];
#pragma unroll
  for (int j = 0; j < kMost; ++j)
    for (int i = 0; i < 4; ++i) total[j][i] = 0.0f;
  if constexpr (kAlone)
    meet();
  else
    arrive();
  for (int split = 0; split < n_splits; ++split) {
    const int n_local = local_tiles(split), parity = split % 2;
    meet();  // the largest scores
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      row_base[i] = -INFINITY;
      sum[i] = 0.0f;
#pragma unroll
      for (int tile = 0; tile < kSplitTiles; ++tile) {
        if (tile >= n_local) break;
        const float old = row_base[i];
        row_base[i] = next_base(old, row_tops(i, tile), arg.scale_log2);
        factor[i][tile] = rescale(old, row_base[i]);
      }
    }
    arrive();
    wait_copies<1>();
    role_meet(0);
    meet();  // the weights
    if (split + 1 < n_splits) arrive();
#pragma unroll
    for (int j = 0; j < kMost; ++j)
      for (int i = 0; i < 4; ++i) acc[j][i] = 0.0f;
    const auto* groups =
        reinterpret_cast<const float2*>(shared + Shared::kGroups + parity * Shared::kGroupBytes) + lane;
#pragma unroll
    for (int tile = 0; tile < kSplitTiles; ++tile) {
      if (tile >= n_local) break;
      const float2 g0 = groups[tile * 128], g1 = groups[tile * 128 + 32], g2 = groups[tile * 128 + 64],
                   g3 = groups[tile * 128 + 96];
      sum[0] = fmaf(sum[0], factor[0][tile], tile_sum(g0.x, g1.x, g2.x, g3.x));
      sum[1] = fmaf(sum[1], factor[1][tile], tile_sum(g0.y, g1.y, g2.y, g3.y));
      if (warp >= n_columns) continue;
#pragma unroll
      for (int j = 0; j < kMost; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[j][i] *= factor[i / 2][tile];
      const std::uint32_t at_p = base + Shared::kP + parity * Shared::kPBytes + tile * 2048,
                          at_v = base + Shared::kV + parity * Shared::kVBytes + (tile * kKeys + lane) * 16;
#pragma unroll
      for (int step = 0; step < 4; step += 2) {
        std::uint32_t p[2][4];
        load_matrix_x4(p[0], at_p + swizzled(lane % 16, step * 2 + lane / 16));
        load_matrix_x4(p[1], at_p + swizzled(lane % 16, step * 2 + 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < kMost; ++j) {
          if (warp + 4 * j >= n_columns) break;
          std::uint32_t b[4];
          load_matrix_x4_transposed(b, at_v + (warp + 4 * j) * column_bytes + step * 256);
          const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
          mma(acc[j], p[0], b0);
          mma(acc[j], p[1], b1);
        }
      }
    }
    for (int i = 0; i < 2; ++i) totals[i].close(row_base[i], quad_sum(sum[i]));
#pragma unroll
    for (int j = 0; j < kMost; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) total[j][i] = totals[i / 2].combine(total[j][i], acc[j][i]);
    role_meet(0);
    fetch_values(split + 2);
  }
  wait_copies<0>();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane / 4 + 8 * i;
    if (row >= item.n_rows) continue;
    const float inverse = 1.0f / totals[i].sum;
    __nv_bfloat16* to =
        arg.out + row_offset<D>(arg, item.first_token, item.kv_head, item.row0 + row) + first_column * 8;
#pragma unroll
    for (int j = 0; j < kMost; ++j)
      if (warp + 4 * j < n_columns)
        *reinterpret_cast<__nv_bfloat162*>(to + (warp + 4 * j) * 8 + lane % 4 * 2) =
            __floats2bfloat162_rn(total[j][2 * i] * inverse, total[j][2 * i + 1] * inverse);
  }
}

template <int D>
__global__ void MONOGRAPH_CLUSTERS_OF(kCluster) __launch_bounds__(256, D <= 128 ? 2 : 1)
    few_attention_kernel(AttentionArguments arg) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char shared[];
  FewItem item{arg.work.items + blockIdx.x / kCluster};
  cluster_arrive();
  let_successor_start();
  wait_for_predecessor();
  const int n_items = *arg.work.n_items;
  const int slot = item.at->slot, tile = item.at->tile, length = item.at->length;  // harmless past the end
  item.first_token = item.at->first_token;
  item.prefix = item.at->prefix;
  cluster_wait();  // the others run: their shared memory may be written
  if (static_cast<int>(blockIdx.x) / kCluster >= n_items) return;
  const int group = arg.work.heads_per_kv;
  item.rank = blockIdx.x % kCluster;
  item.kv_head = blockIdx.y;
  item.row0 = tile * 16;
  item.n_rows = min(16, length * group - item.row0);
  item.n_keys = item.prefix + (item.row0 + item.n_rows - 1) / group + 1;
  item.n_tiles = (item.n_keys + kKeys - 1) / kKeys;
  item.table = arg.table + static_cast<std::int64_t>(slot) * arg.table_width;
  if (item.n_tiles > 1)
    few_attention<D, false>(arg, item, shared);
  else if (item.rank == 0)
    few_attention<D, true>(arg, item, shared);
#endif
}

template <int D>
void launch_few_attention(cudaStream_t stream, const AttentionArguments& arg, int max_items) {
  auto kernel = few_attention_kernel<D>;
  static const bool ready = (allow_shared(kernel, FewAttention<D>::kShared), true);
  static_cast<void>(ready);
  launch(stream, dim3(max_items * kCluster, arg.n_kv_heads), 256, FewAttention<D>::kShared, kernel, arg);
}

}  // namespace monograph::cuda
