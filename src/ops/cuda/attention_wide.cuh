// Attention for many rows: bulk tensor copies bring query tiles and a ring of key and value blocks, two warpgroups of
// 64 rows run wgmma on them. CTAs stay and take work items, longest first, until none is left; while a warpgroup weighs
// the scores of one key tile, the tensor cores work on its values of the tile before and on the other warpgroup's. An
// item is at most 128 rows of whole tokens; of one with at most 64, the second warpgroup only lets tiles go.
#pragma once
#include "ops/cuda/attention.cuh"
#include "ops/cuda/attention_wgmma.cuh"
#include "ops/cuda/tensor_map.cuh"

namespace monograph::cuda {

/// Rows of (token, query head of one kv head) that an item has: whole tokens, of one warpgroup while that gives each
/// warpgroup a multiprocessor of its own, else of two.
inline int wide_tile_rows(int capacity, int heads_per_kv, int n_kv_heads, int n_multiprocessors) {
  const bool alone = heads_per_kv <= 64 && capacity * heads_per_kv / 64 * n_kv_heads <= n_multiprocessors;
  return (alone ? 64 : 128) / heads_per_kv * heads_per_kv;
}

/// Tiles in shared memory have rows of 64 values; a head of more than 64 lies in two of them, columns past it zero.
template <int D>
struct WideAttention {
  static constexpr int kBoxes = (D + 63) / 64, kStages = kBoxes == 1 ? 8 : 5, kThreads = 384;
  static constexpr int kQBox = 128 * 128, kBox = kKeys * 128;
  static constexpr int kTileBytes = kBoxes * kBox;
  static constexpr int kShared = 1024 + kBoxes * kQBox + 2 * kStages * kTileBytes + 256;
};

/// What the copying thread tells the warpgroups about a work item.
struct WideItem {
  int tile, first_token, length, prefix, kv_head, n_tiles;  // no tiles: the end of the list
};

struct RingPosition {
  int stage = 0, phase = 0;
  template <int kStages>
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

template <int D>
__global__ void __launch_bounds__(384, 1)
    wide_attention_kernel(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                          const __grid_constant__ CUtensorMap map_v, AttentionArguments arg) {
#if __CUDA_ARCH__ >= 900
  using Tile = WideAttention<D>;
  constexpr int kStages = Tile::kStages;
  extern __shared__ unsigned char raw[];
  __shared__ WideItem shared_item;
  const std::uint32_t at_q = (shared_address(raw) + 1023) & ~1023u, at_k = at_q + Tile::kBoxes * Tile::kQBox,
                      at_v = at_k + kStages * Tile::kTileBytes, barriers = at_v + kStages * Tile::kTileBytes;
  const std::uint32_t full_k = barriers, full_v = full_k + 8 * kStages, empty_k = full_v + 8 * kStages,
                      empty_v = empty_k + 8 * kStages, full_q = empty_v + 8 * kStages, empty_q = full_q + 8;
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full_k + 8 * s, 1);
      barrier_init(full_v + 8 * s, 1);
      barrier_init(empty_k + 8 * s, 8);
      barrier_init(empty_v + 8 * s, 8);
    }
    barrier_init(full_q, 1);
    barrier_init(empty_q, 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  let_successor_start();

  const int group = arg.work.heads_per_kv, tile_rows = arg.work.tile_rows;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x != 0) return;
    for (const CUtensorMap* map : {&map_q, &map_k, &map_v})
      asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
    wait_for_predecessor();
    const int n_work = *arg.work.n_items * arg.n_kv_heads;
    RingPosition at;
    int n = 0;
    const AttentionItem* item = arg.work.items + blockIdx.x / arg.n_kv_heads;
    WideItem found{item->tile, item->first_token, item->length, item->prefix};  // harmless past the end
    std::int32_t block = item->blocks[0];
    const std::int32_t* table = arg.table + static_cast<std::int64_t>(item->slot) * arg.table_width;
    for (int work = blockIdx.x; work < n_work; ++n) {
      const int row0 = found.tile * tile_rows, last_row = min(row0 + tile_rows, found.length * group) - 1;
      const int kv_head = work % arg.n_kv_heads, n_tiles = (found.prefix + last_row / group) / kKeys + 1;
      found.kv_head = kv_head;
      found.n_tiles = n_tiles;
      barrier_wait(empty_q, (n & 1) ^ 1);
      shared_item = found;
      barrier_expect(full_q, Tile::kBoxes * tile_rows * 128);
      for (int box = 0; box < Tile::kBoxes; ++box)
        copy_box(at_q + box * Tile::kQBox, &map_q, box * 64, kv_head * group, found.first_token + row0 / group, full_q);
      work = static_cast<int>(gridDim.x + atomicAdd(arg.work.n_taken, 1));
      if (!arg.first_group) block = table[0];
#pragma unroll 1
      for (int tile = 0; tile < n_tiles; ++tile, at.advance<kStages>()) {
        const int row = (block * arg.n_kv_heads + kv_head) * kKeys;
        block = tile + 1 < n_tiles ? table[tile + 1] : 0;
        const std::uint32_t to = at.stage * Tile::kTileBytes;
        barrier_wait(empty_k + 8 * at.stage, at.phase ^ 1);
        barrier_expect(full_k + 8 * at.stage, Tile::kTileBytes);
        for (int box = 0; box < Tile::kBoxes; ++box)
          copy_box(at_k + to + box * Tile::kBox, &map_k, box * 64, row, full_k + 8 * at.stage);
        barrier_wait(empty_v + 8 * at.stage, at.phase ^ 1);
        barrier_expect(full_v + 8 * at.stage, Tile::kTileBytes);
        for (int box = 0; box < Tile::kBoxes; ++box)
          copy_box(at_v + to + box * Tile::kBox, &map_v, box * 64, row, full_v + 8 * at.stage);
      }
      if (work >= n_work) continue;
      item = arg.work.items + work / arg.n_kv_heads;
      found = {item->tile, item->first_token, item->length, item->prefix};
      block = item->blocks[0];
      table = arg.table + static_cast<std::int64_t>(item->slot) * arg.table_width;
    }
    barrier_wait(empty_q, (n & 1) ^ 1);
    shared_item.n_tiles = 0;
    barrier_arrive(full_q);
    // The last CTA to leave makes the list whole again for the next layer.
    __threadfence();
    if (atomicAdd(arg.work.n_done, 1) == static_cast<int>(gridDim.x) - 1) *arg.work.n_taken = 0, *arg.work.n_done = 0;
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  wait_for_predecessor();
  const int warpgroup = threadIdx.x / 128 - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  RingPosition next_k, next_v;
  for (int n = 0;; ++n) {
    barrier_wait(full_q, n & 1);
    const WideItem item = shared_item;
    const int n_tiles = uniform(item.n_tiles), kv_head = item.kv_head;
    if (n_tiles == 0) return;
    std::uint32_t q[D / 16][4];
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      load_matrix_x4(q[step], at_q + step / 4 * Tile::kQBox +
                                  swizzled(warpgroup * 64 + warp * 16 + lane % 16, step % 4 * 2 + lane / 16));
    __syncwarp();
    if (lane == 0) barrier_arrive(empty_q);

    const int item_row = warpgroup * 64, row0 = item.tile * tile_rows + item_row, n_rows = item.length * group;
    const int last_row = min(row0 + min(64, tile_rows - item_row), n_rows) - 1;
    // Tiles that this warpgroup's rows see; the rest it only lets go.
    const int n_own = uniform(last_row >= row0 ? (item.prefix + last_row / group) / kKeys + 1 : 0);
    const int first_position = item.prefix + row0 / group;
    const int end = item.prefix + item.length, tail_tile = end % kKeys ? end / kKeys : -1;
    int position[2];
    for (int i = 0; i < 2; ++i) position[i] = item.prefix + (row0 + warp * 16 + lane / 4 + 8 * i) / group;

    float acc[D / 2], total[D / 2], s[32], base[2], sum[2], factor[2];
    std::uint32_t p[4][4];
    SplitTotal totals[2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) acc[i] = total[i] = 0.0f;
    for (int i = 0; i < 2; ++i) base[i] = -INFINITY, sum[i] = 0.0f;

    const auto start_scores = [&] {
      const std::uint64_t keys = operand(at_k + next_k.stage * Tile::kTileBytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < D / 16; ++step)
        RegisterWgmma<64, 0>::run(s, q[step], keys + (step / 4 * Tile::kBox + step % 4 * 32) / 16, step > 0);
      wgmma_commit();
    };
    const auto end_scores = [&] {
      hold(s);
      if (lane == 0) barrier_arrive(empty_k + 8 * next_k.stage);
      next_k.advance<kStages>();
    };
    const auto start_values = [&] {
      const std::uint64_t values = transposed_operand(at_v + next_v.stage * Tile::kTileBytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) RegisterWgmma<D, 1>::run(acc, p[step], values + step * 2048 / 16, 1);
      wgmma_commit();
    };
    const auto end_values = [&] {
      hold(acc);
      if (lane == 0) barrier_arrive(empty_v + 8 * next_v.stage);
      next_v.advance<kStages>();
    };
    // Rows past the sequence's end hold whatever the block held before: a weight of zero times a NaN is a NaN.
    const auto clear_tail = [&] {
      const std::uint32_t from = at_v + next_v.stage * Tile::kTileBytes;
      for (int i = threadIdx.x % 128 + end % kKeys * 8; i < kKeys * 8; i += 128)
        for (int box = 0; box < Tile::kBoxes; ++box)
          asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(from + box * Tile::kBox + i * 16), "r"(0)
                       : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");
    };
    // Scores to weights, in place; base, sum and the factor of what was summed before.
    const auto weigh = [&](int tile) {
      if (tile * kKeys + kKeys - 1 > first_position) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          const int key = tile * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (key > position[i / 2 % 2]) s[i] = -INFINITY;
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float top = fmaxf(s[2 * i], s[2 * i + 1]);
#pragma unroll
        for (int j = 1; j < 8; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
        weigh_row(s, i, top, arg.scale_log2, base[i], sum[i], factor[i]);
      }
    };
    const auto pack_weights = [&] {
#pragma unroll
      for (int step = 0; step < 4; ++step)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[step][i] = pack_bf16(s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
    };
    const auto close_split = [&](const float(&split_base)[2], const float(&split_sum)[2]) {
      for (int i = 0; i < 2; ++i) totals[i].close(split_base[i], quad_sum(split_sum[i]));
#pragma unroll
      for (int i = 0; i < D / 2; ++i) {
        total[i] = totals[i / 2 % 2].combine(total[i], acc[i]);
        acc[i] = 0.0f;
      }
    };

    if (n_own > 0) {
      barrier_wait(full_k + 8 * next_k.stage, next_k.phase);
      start_scores();
      wgmma_wait<0>();
      end_scores();
      weigh(0);
      pack_weights();
      for (int tile = 1; tile < n_own; ++tile) {
        barrier_wait(full_k + 8 * next_k.stage, next_k.phase);
        barrier_wait(full_v + 8 * next_v.stage, next_v.phase);
        start_scores();
        start_values();
        wgmma_wait<1>();
        end_scores();
        const bool opens = tile % kSplitTiles == 0;
        const float split_base[2] = {base[0], base[1]}, split_sum[2] = {sum[0], sum[1]};
        if (opens)
          for (int i = 0; i < 2; ++i) base[i] = -INFINITY, sum[i] = 0.0f;
        weigh(tile);
        // The assembler would wait for the values first; behind a branch that needs every weight it cannot.
        if (!(sum[0] + sum[1] >= 0.0f)) asm volatile("nanosleep.u32 1;");
        wgmma_wait<0>();
        end_values();
        if (opens) {
          close_split(split_base, split_sum);
        } else if (factor[0] != 1.0f || factor[1] != 1.0f) {
#pragma unroll
          for (int i = 0; i < D / 2; ++i) acc[i] *= factor[i / 2 % 2];
        }
        pack_weights();
      }
      barrier_wait(full_v + 8 * next_v.stage, next_v.phase);
      if (n_own - 1 == tail_tile) clear_tail();
      start_values();
      wgmma_wait<0>();
      end_values();
      close_split(base, sum);
    }
    for (int tile = n_own; tile < n_tiles; ++tile) {
      barrier_wait(full_k + 8 * next_k.stage, next_k.phase);
      if (lane == 0) barrier_arrive(empty_k + 8 * next_k.stage);
      next_k.advance<kStages>();
      barrier_wait(full_v + 8 * next_v.stage, next_v.phase);
      if (lane == 0) barrier_arrive(empty_v + 8 * next_v.stage);
      next_v.advance<kStages>();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_group = warp * 16 + lane / 4 + 8 * i, r = row0 + in_group;
      if (item_row + in_group >= tile_rows || r >= n_rows) continue;
      const float inverse = 1.0f / totals[i].sum;
      __nv_bfloat16* to = arg.out + row_offset<D>(arg, item.first_token, kv_head, r);
#pragma unroll
      for (int j = 0; j < D / 8; ++j)
        *reinterpret_cast<__nv_bfloat162*>(to + j * 8 + lane % 4 * 2) =
            __floats2bfloat162_rn(total[j * 4 + 2 * i] * inverse, total[j * 4 + 2 * i + 1] * inverse);
    }
  }
#endif
}

template <int D>
void launch_wide_attention(cudaStream_t stream, const AttentionArguments& arg, int n_blocks, int max_items,
                           int n_multiprocessors) {
  using Tile = WideAttention<D>;
  auto kernel = wide_attention_kernel<D>;
  static const bool ready = (allow_shared(kernel, Tile::kShared), true);
  static_cast<void>(ready);
  const int group = arg.work.heads_per_kv;
  const std::int64_t rows = static_cast<std::int64_t>(n_blocks) * arg.n_kv_heads * kKeys;
  const CUtensorMap q = make_query_map(arg.q, arg.capacity, arg.n_heads, D, arg.work.tile_rows / group, group),
                    k = make_tensor_map(arg.k, rows, D, kKeys), v = make_tensor_map(arg.v, rows, D, kKeys);
  const int n_ctas = std::min(max_items * arg.n_kv_heads, n_multiprocessors);
  launch(stream, n_ctas, Tile::kThreads, Tile::kShared, kernel, q, k, v, arg);
}

}  // namespace monograph::cuda
