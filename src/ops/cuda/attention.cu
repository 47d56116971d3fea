// Causal attention over paged K and V with mma.sync, from a work list made on the device. Key tiles of 64 (one block)
// and splits of 512 keys lie at absolute positions, and split results are combined in ascending order, for every row
// alike: a row's bits do not depend on the tile it sits in, so decode, chunk and whole prompt agree.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph {
namespace {

using namespace cuda;  // NOLINT: device helpers by their short names

constexpr int kKeys = 64, kSplitTiles = 512 / kKeys;

struct AttentionArguments {
  __nv_bfloat16* out;
  const __nv_bfloat16 *q, *k, *v;
  const std::int32_t* table;
  int table_width, n_heads, n_kv_heads, capacity;
  float scale_log2;  // attention scale * log2(e)
  AttentionWork work;
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

/// What a thread carries for its two rows (lane / 4 and 8 further): sums of the open split, and of the splits before
/// it.
template <int Tiles>
struct SplitSums {
  float acc[Tiles][4] = {}, total[Tiles][4] = {};
  float max_split[2] = {-INFINITY, -INFINITY}, sum_split[2] = {0, 0};
  float max_total[2] = {-INFINITY, -INFINITY}, sum_total[2] = {0, 0};

  /// total := total combined with the split; factors of an empty side are exactly 0.
  __device__ __forceinline__ void close_split() {
    float keep[2], add[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float top = fmaxf(max_total[i], max_split[i]);
      const float base = top == -INFINITY ? 0.0f : top;
      keep[i] = exp2f(max_total[i] - base);
      add[i] = exp2f(max_split[i] - base);
      sum_total[i] = fmaf(sum_total[i], keep[i], sum_split[i] * add[i]);
      max_total[i] = top;
      max_split[i] = -INFINITY;
      sum_split[i] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < Tiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[j][i] = fmaf(total[j][i], keep[i / 2], acc[j][i] * add[i / 2]);
        acc[j][i] = 0.0f;
      }
  }
};

/// Sum of one row's 16 neighbouring keys, of which each of four lanes holds four. A tile's sum is the four groups'
/// sums, added in pairs: the order is the same however a tile is spread over warps.
__device__ __forceinline__ float group_sum(float a, float b, float c, float d) {
  float sum = (a + b) + (c + d);
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  return sum;
}

template <int D, int WARPS, int COMPUTE_WARPS>
struct AttentionTile {
  static constexpr int kRows = COMPUTE_WARPS * 16;
  static constexpr int kQBytes = kRows * D * 2, kTileBytes = kKeys * D * 2;
  static constexpr int kShared = kQBytes + 4 * kTileBytes;  // K and V, double-buffered
};

// One CTA per (work item, kv head): 16 rows of (token, query head) per computing warp; all warps load.
template <int D, int WARPS, int COMPUTE_WARPS>
__global__ void __launch_bounds__(WARPS * 32) attention_kernel(AttentionArguments arg) {
  using Tile = AttentionTile<D, WARPS, COMPUTE_WARPS>;
  constexpr int kThreads = WARPS * 32, kDSteps = D / 16, kDTiles = D / 8, kChunks = D / 8;
  extern __shared__ __align__(128) unsigned char shared[];
  const std::uint32_t at_q = shared_address(shared), at_kv = at_q + Tile::kQBytes;
  let_successor_start();
  wait_for_predecessor();
  const int item = blockIdx.x, kv_head = blockIdx.y, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int n_items = *arg.work.n_items;
  const AttentionItem found = arg.work.items[item];  // harmless past the end: the list is longer than any grid
  if (item >= n_items) return;
  const int slot = found.slot, group = arg.work.heads_per_kv, row0 = found.tile * Tile::kRows;
  const int first_token = found.first_token, length = found.length, prefix = found.prefix;
  const int n_rows = length * group;
  const std::int32_t* table = arg.table + static_cast<std::int64_t>(slot) * arg.table_width;

  const int last_row = min(row0 + Tile::kRows, n_rows) - 1;
  const int n_keys = prefix + last_row / group + 1, n_tiles = (n_keys + kKeys - 1) / kKeys;

  const auto fetch_tile = [&](int tile) {
    const std::int64_t block = table[tile];
    const std::int64_t from = (block * arg.n_kv_heads + kv_head) * kKeys * D;
    const std::uint32_t to = at_kv + (tile & 1) * 2 * Tile::kTileBytes;
    for (int i = thread; i < kKeys * kChunks; i += kThreads) {
      const int row = i / kChunks, chunk = i % kChunks;
      copy16(to + tile_offset<D>(row, chunk), arg.k + from + row * D + chunk * 8, true);
      // Rows past the sequence's end hold whatever the block held before; a zero weight times a NaN would still be a
      // NaN.
      copy16(to + Tile::kTileBytes + tile_offset<D>(row, chunk), arg.v + from + row * D + chunk * 8,
             tile * kKeys + row < n_keys);
    }
  };
  for (int i = thread; i < Tile::kRows * kChunks; i += kThreads) {
    const int r = row0 + i / kChunks, chunk = i % kChunks;
    const bool valid = r < n_rows;
    const std::int64_t token = first_token + (valid ? r / group : 0);
    const int head = kv_head * group + (valid ? r % group : 0);
    copy16(at_q + tile_offset<D>(i / kChunks, chunk), arg.q + (token * arg.n_heads + head) * D + chunk * 8, valid);
  }
  fetch_tile(0);
  commit_copies();

  // Per thread: rows lane/4 and lane/4 + 8 of the warp's 16.
  SplitSums<kDTiles> sums;
  int position[2];
  for (int i = 0; i < 2; ++i) position[i] = prefix + (row0 + warp * 16 + lane / 4 + 8 * i) / group;
  const int warp_last = prefix + min(row0 + warp * 16 + 15, n_rows - 1) / group;
  std::uint32_t q[kDSteps][4];

  for (int tile = 0; tile < n_tiles; ++tile) {
    if (tile + 1 < n_tiles) fetch_tile(tile + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    if (tile == 0 && warp < COMPUTE_WARPS) {
#pragma unroll
      for (int step = 0; step < kDSteps; ++step)
        load_matrix_x4(q[step], at_q + tile_offset<D>(warp * 16 + lane % 16, step * 2 + lane / 16));
    }
    const bool works = warp < COMPUTE_WARPS && row0 + warp * 16 < n_rows && tile * kKeys <= warp_last;
    if (works) {
      const std::uint32_t at_k = at_kv + (tile & 1) * 2 * Tile::kTileBytes, at_v = at_k + Tile::kTileBytes;
      float s[8][4] = {};
#pragma unroll
      for (int step = 0; step < kDSteps; ++step)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          std::uint32_t b[4];
          load_matrix_x4(b, at_k + tile_offset<D>(n * 8 + (lane / 16) * 8 + lane % 8, step * 2 + (lane / 8) % 2));
          const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
          mma(s[n], q[step], b0);
          mma(s[n + 1], q[step], b1);
        }
      const int first_key = tile * kKeys;
      float top[2] = {sums.max_split[0], sums.max_split[1]};
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = first_key + n * 8 + (lane % 4) * 2 + i % 2;
          s[n][i] = key <= position[i / 2] ? s[n][i] * arg.scale_log2 : -INFINITY;
          top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 1));
        top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 2));
      }
      float factor[2], base[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        base[i] = top[i] == -INFINITY ? 0.0f : top[i];
        factor[i] = exp2f(sums.max_split[i] - base[i]);
        sums.max_split[i] = top[i];
      }
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[n][i] = exp2f(s[n][i] - base[i / 2]);
        }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float groups[4];
#pragma unroll
        for (int g = 0; g < 4; ++g)
          groups[g] = group_sum(s[2 * g][2 * i], s[2 * g][2 * i + 1], s[2 * g + 1][2 * i], s[2 * g + 1][2 * i + 1]);
        sums.sum_split[i] = fmaf(sums.sum_split[i], factor[i], (groups[0] + groups[1]) + (groups[2] + groups[3]));
      }
#pragma unroll
      for (int j = 0; j < kDTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.acc[j][i] *= factor[i / 2];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const std::uint32_t p[4] = {
            pack_bf16(s[2 * step][0], s[2 * step][1]), pack_bf16(s[2 * step][2], s[2 * step][3]),
            pack_bf16(s[2 * step + 1][0], s[2 * step + 1][1]), pack_bf16(s[2 * step + 1][2], s[2 * step + 1][3])};
#pragma unroll
        for (int j = 0; j < kDTiles; ++j) {
          std::uint32_t b[2];
          load_matrix_x2_transposed(b, at_v + tile_offset<D>(step * 16 + lane % 16, j));
          mma(sums.acc[j], p, b);
        }
      }
    }
    if (tile % kSplitTiles == kSplitTiles - 1) sums.close_split();
    __syncthreads();
  }
  wait_copies<0>();
  if (n_tiles % kSplitTiles != 0) sums.close_split();
  if (warp >= COMPUTE_WARPS) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row0 + warp * 16 + lane / 4 + 8 * i;
    if (r >= n_rows) continue;
    const float inverse = 1.0f / sums.sum_total[i];
    __nv_bfloat16* to =
        arg.out +
        ((static_cast<std::int64_t>(first_token) + r / group) * arg.n_heads + kv_head * group + r % group) * D;
#pragma unroll
    for (int j = 0; j < kDTiles; ++j)
      *reinterpret_cast<__nv_bfloat162*>(to + j * 8 + (lane % 4) * 2) =
          __floats2bfloat162_rn(sums.total[j][2 * i] * inverse, sums.total[j][2 * i + 1] * inverse);
  }
}

// For few rows: one CTA per (tile of 16 rows, kv head), a key tile spread over four warps. Each warp scores its 16
// keys, the weights meet in shared memory, and each warp sums its quarter of the values' columns. Element for element
// the sums are those of the kernel above.
template <int D>
struct FewTile {
  static constexpr int kStages = D <= 128 ? 3 : 2, kTileBytes = kKeys * D * 2, kQBytes = 16 * D * 2,
                       kPBytes = 16 * kKeys * 2;
  static constexpr int kShared = kQBytes + kPBytes + 2 * kStages * kTileBytes;
};

template <int D>
__global__ void __launch_bounds__(128) few_rows_kernel(AttentionArguments arg) {
  using Tile = FewTile<D>;
  constexpr int kDSteps = D / 16, kChunks = D / 8, kColumns = D >= 32 ? D / 32 : 1;  // column tiles of 8 a warp
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float tops[4][16], group_sums[4][16];
  const std::uint32_t at_q = shared_address(shared), at_p = at_q + Tile::kQBytes, at_kv = at_p + Tile::kPBytes;
  let_successor_start();
  wait_for_predecessor();
  const int item = blockIdx.x, kv_head = blockIdx.y, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int n_items = *arg.work.n_items;
  const AttentionItem found = arg.work.items[item];  // harmless past the end: the list is longer than any grid
  if (item >= n_items) return;
  const int group = arg.work.heads_per_kv, row0 = found.tile * 16, n_rows = found.length * group;
  const std::int32_t* table = arg.table + static_cast<std::int64_t>(found.slot) * arg.table_width;
  const int n_keys = found.prefix + (min(row0 + 16, n_rows) - 1) / group + 1, n_tiles = (n_keys + kKeys - 1) / kKeys;

  const auto fetch_tile = [&](int tile) {
    if (tile < n_tiles) {
      const std::int64_t from = (static_cast<std::int64_t>(table[tile]) * arg.n_kv_heads + kv_head) * kKeys * D;
      const std::uint32_t to = at_kv + (tile % Tile::kStages) * 2 * Tile::kTileBytes;
      for (int i = thread; i < kKeys * kChunks; i += 128) {
        const int row = i / kChunks, chunk = i % kChunks;
        copy16(to + tile_offset<D>(row, chunk), arg.k + from + row * D + chunk * 8, true);
        copy16(to + Tile::kTileBytes + tile_offset<D>(row, chunk), arg.v + from + row * D + chunk * 8,
               tile * kKeys + row < n_keys);
      }
    }
    commit_copies();
  };
  for (int i = thread; i < 16 * kChunks; i += 128) {
    const int r = row0 + i / kChunks, chunk = i % kChunks;
    const bool valid = r < n_rows;
    const std::int64_t token = found.first_token + (valid ? r / group : 0);
    const int head = kv_head * group + (valid ? r % group : 0);
    copy16(at_q + tile_offset<D>(i / kChunks, chunk), arg.q + (token * arg.n_heads + head) * D + chunk * 8, valid);
  }
  for (int tile = 0; tile < Tile::kStages - 1; ++tile) fetch_tile(tile);

  SplitSums<kColumns> sums;
  int position[2];
  for (int i = 0; i < 2; ++i) position[i] = found.prefix + (row0 + lane / 4 + 8 * i) / group;
  std::uint32_t q[kDSteps][4];
  for (int tile = 0; tile < n_tiles; ++tile) {
    wait_copies<Tile::kStages - 2>();
    __syncthreads();
    fetch_tile(tile + Tile::kStages - 1);
    if (tile == 0) {
#pragma unroll
      for (int step = 0; step < kDSteps; ++step)
        load_matrix_x4(q[step], at_q + tile_offset<D>(lane % 16, step * 2 + lane / 16));
    }
    const std::uint32_t at_k = at_kv + (tile % Tile::kStages) * 2 * Tile::kTileBytes, at_v = at_k + Tile::kTileBytes;
    float s[2][4] = {};
#pragma unroll
    for (int step = 0; step < kDSteps; ++step) {
      std::uint32_t b[4];
      load_matrix_x4(b, at_k + tile_offset<D>(warp * 16 + (lane / 16) * 8 + lane % 8, step * 2 + (lane / 8) % 2));
      const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
      mma(s[0], q[step], b0);
      mma(s[1], q[step], b1);
    }
    float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = tile * kKeys + warp * 16 + n * 8 + (lane % 4) * 2 + i % 2;
        s[n][i] = key <= position[i / 2] ? s[n][i] * arg.scale_log2 : -INFINITY;
        top[i / 2] = fmaxf(top[i / 2], s[n][i]);
      }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 1));
      top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 2));
      if (lane % 4 == 0) tops[warp][lane / 4 + 8 * i] = top[i];
    }
    __syncthreads();
    float factor[2], base[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i;
      top[i] = fmaxf(sums.max_split[i], fmaxf(fmaxf(tops[0][row], tops[1][row]), fmaxf(tops[2][row], tops[3][row])));
      base[i] = top[i] == -INFINITY ? 0.0f : top[i];
      factor[i] = exp2f(sums.max_split[i] - base[i]);
      sums.max_split[i] = top[i];
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = exp2f(s[n][i] - base[i / 2]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i;
      const float sum = group_sum(s[0][2 * i], s[0][2 * i + 1], s[1][2 * i], s[1][2 * i + 1]);
      if (lane % 4 == 0) group_sums[warp][row] = sum;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const std::uint32_t to = at_p + swizzled(row, warp * 2 + n) + (lane % 4) * 4;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pack_bf16(s[n][2 * i], s[n][2 * i + 1])) : "memory");
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane / 4 + 8 * i;
      sums.sum_split[i] = fmaf(sums.sum_split[i], factor[i],
                               (group_sums[0][row] + group_sums[1][row]) + (group_sums[2][row] + group_sums[3][row]));
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.acc[j][i] *= factor[i / 2];
    if (warp * kColumns < D / 8) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t p[4];
        load_matrix_x4(p, at_p + swizzled(lane % 16, step * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          std::uint32_t b[2];
          load_matrix_x2_transposed(b, at_v + tile_offset<D>(step * 16 + lane % 16, warp * kColumns + j));
          mma(sums.acc[j], p, b);
        }
      }
    }
    if (tile % kSplitTiles == kSplitTiles - 1) sums.close_split();
  }
  wait_copies<0>();
  if (n_tiles % kSplitTiles != 0) sums.close_split();
  if (warp * kColumns >= D / 8) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = row0 + lane / 4 + 8 * i;
    if (r >= n_rows) continue;
    const float inverse = 1.0f / sums.sum_total[i];
    __nv_bfloat16* to =
        arg.out +
        ((static_cast<std::int64_t>(found.first_token) + r / group) * arg.n_heads + kv_head * group + r % group) * D;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      *reinterpret_cast<__nv_bfloat162*>(to + (warp * kColumns + j) * 8 + (lane % 4) * 2) =
          __floats2bfloat162_rn(sums.total[j][2 * i] * inverse, sums.total[j][2 * i + 1] * inverse);
  }
}

template <int D>
void launch_few_rows(cudaStream_t stream, const AttentionArguments& arg, int max_items) {
  auto kernel = few_rows_kernel<D>;
  static const bool ready = (allow_shared(kernel, FewTile<D>::kShared), true);
  static_cast<void>(ready);
  launch(stream, dim3(max_items, arg.n_kv_heads), 128, FewTile<D>::kShared, kernel, arg);
}

template <int D, int WARPS, int COMPUTE_WARPS>
void launch_attention(cudaStream_t stream, const AttentionArguments& arg, int max_items) {
  using Tile = AttentionTile<D, WARPS, COMPUTE_WARPS>;
  auto kernel = attention_kernel<D, WARPS, COMPUTE_WARPS>;
  static const bool ready = (allow_shared(kernel, Tile::kShared), true);
  static_cast<void>(ready);
  launch(stream, dim3(max_items, arg.n_kv_heads), WARPS * 32, Tile::kShared, kernel, arg);
}

}  // namespace

cuda::AttentionWork CudaOps::attention_work(int capacity) const {
  cuda::AttentionWork work;
  work.n_items = work_.as<std::int32_t>();
  work.items = reinterpret_cast<cuda::AttentionItem*>(work_.as<std::int32_t>() + 64);
  work.heads_per_kv = shape_.n_heads / shape_.n_kv_heads;
  // Few tokens: small tiles make more CTAs and waste fewer rows. The same bits either way.
  work.tile_rows = capacity <= 32 || shape_.head_dim > 128 ? 16 : 64;
  return work;
}

void CudaOps::attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) {
  AttentionArguments arg{};
  arg.out = out.as<__nv_bfloat16>();
  arg.q = q.as<const __nv_bfloat16>();
  arg.k = static_cast<const __nv_bfloat16*>(kv.k);
  arg.v = static_cast<const __nv_bfloat16*>(kv.v);
  arg.table = in.table(kv.group);
  arg.table_width = in.shape.table_width;
  arg.n_heads = q.shape[1];
  arg.n_kv_heads = kv.n_kv_heads;
  arg.capacity = in.capacity;
  arg.scale_log2 = scale * 1.44269504f;
  arg.work = attention_work(in.capacity);
  if (kv.block_size != kKeys)
    throw Error(ErrorCode::kUnsupported, "block_size " + std::to_string(kv.block_size) + ": the GPU kernels need 64");
  const int rows = in.capacity * arg.work.heads_per_kv, tile = arg.work.tile_rows;
  // Every real slot may leave one tile partly filled; there are at most min(Bmax, C) of them, and the sentinel.
  const int max_items = rows / tile + std::min(in.shape.max_rows, in.capacity) + 1;
  const auto by_tile = [&]<int D>() {
    if (tile == 16)
      launch_few_rows<D>(stream_, arg, max_items);
    else
      launch_attention<D, 4, 4>(stream_, arg, max_items);
  };
  switch (q.shape[2]) {
    case 16:
      return by_tile.operator()<16>();
    case 32:
      return by_tile.operator()<32>();
    case 64:
      return by_tile.operator()<64>();
    case 96:
      return by_tile.operator()<96>();
    case 128:
      return by_tile.operator()<128>();
    case 256:
      return launch_few_rows<256>(stream_, arg, max_items);
    default:
      throw Error(ErrorCode::kUnsupported,
                  "head_dim " + std::to_string(q.shape[2]) + ": the GPU kernels know 16, 32, 64, 96, 128 and 256");
  }
}

}  // namespace monograph
