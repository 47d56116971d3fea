// mma.sync m16n8k16 on one work item and kv head a CTA: a warp has 16 rows and walks the keys tile by tile, the next
// tile on its way meanwhile; warps without rows help to bring it. A head of 256 is two CTAs, each with half of the
// values' columns and no room for a second tile.
#include "ops/cuda/sm80/attention.h"

#include "base/check.h"

namespace monograph::cuda::sm80 {
namespace {

constexpr int kThreads = 128;

/// Tiles in shared memory have rows of 64 values, swizzled; a head of more lies in several of them.
template <int D>
struct Tile {
  static constexpr int kColumns = D < 128 ? D : 128, kParts = D / kColumns;  // of the values, by one CTA
  static constexpr int kBox = kKeys * 128, kBoxes = (D + 63) / 64, kValueBoxes = (kColumns + 63) / 64;
  static constexpr int kStages = D <= 128 ? 2 : 1, kStageBytes = (kBoxes + kValueBoxes) * kBox;
  static constexpr int shared_bytes(int rows) { return kBoxes * rows * 128 + kStages * kStageBytes; }
};

/// `rows` rows of kColumns values, `pitch` values apart, into boxes of `rows` rows; zeros from row `n_valid` on.
template <int kColumns, typename RowAt>
__device__ __forceinline__ void fetch_rows(std::uint32_t to, int rows, int n_valid, const RowAt& row_at) {
  constexpr int kChunks = kColumns / 8;
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    copy16(to + chunk / 8 * rows * 128 + swizzled(row, chunk % 8), row_at(row < n_valid ? row : 0) + chunk * 8,
           row < n_valid);
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads) attention_kernel(AttentionArguments arg) {
  using Tile = Tile<D>;
  constexpr int kColumns = Tile::kColumns;
  if (static_cast<int>(blockIdx.x) >= *arg.work.n_items) return;
  extern __shared__ __align__(128) unsigned char shared[];
  const AttentionItem& item = arg.work.items[blockIdx.x];
  const int group = arg.work.heads_per_kv, kv_head = blockIdx.y, first_column = blockIdx.z * kColumns;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16, tile_rows = arg.work.tile_rows;
  const int row0 = item.tile * tile_rows, n_rows = min(tile_rows, item.length * group - row0);
  const int n_keys = item.prefix + (row0 + n_rows - 1) / group + 1, n_tiles = (n_keys + kKeys - 1) / kKeys;
  // The tiles that this warp's rows see.
  const int last_row = min(warp_row + 16, n_rows) - 1;
  const int n_own = last_row >= warp_row ? (item.prefix + (row0 + last_row) / group) / kKeys + 1 : 0;
  int position[2];
  for (int i = 0; i < 2; ++i) position[i] = item.prefix + (row0 + warp_row + lane / 4 + 8 * i) / group;

  const std::uint32_t at_q = shared_address(shared), tiles = at_q + Tile::kBoxes * tile_rows * 128;
  const std::int32_t* table = arg.table + static_cast<std::int64_t>(item.slot) * arg.table_width;
  const auto fetch = [&](int tile) {
    if (tile < n_tiles) {
      const std::uint32_t to = tiles + tile % Tile::kStages * Tile::kStageBytes;
      const std::int32_t block = tile < kSplitTiles && arg.first_group ? item.blocks[tile] : table[tile];
      const std::int64_t from = (static_cast<std::int64_t>(block) * arg.n_kv_heads + kv_head) * kKeys * D;
      // Rows that nobody sees are zero: a weight of zero times a NaN is a NaN.
      const int n_valid = n_keys - tile * kKeys;
      fetch_rows<D>(to, kKeys, n_valid, [&](int row) { return arg.k + from + row * D; });
      fetch_rows<kColumns>(to + Tile::kBoxes * Tile::kBox, kKeys, n_valid,
                           [&](int row) { return arg.v + from + row * D + first_column; });
    }
    commit_copies();
  };

  float s[32], acc[kColumns / 2], total[kColumns / 2], base[2] = {-INFINITY, -INFINITY}, sum[2] = {}, factor[2];
  SplitTotal totals[2];
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) acc[i] = total[i] = 0.0f;

  const auto score = [&](std::uint32_t at_k) {
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = 0.0f;
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      std::uint32_t q[4];
      load_matrix_x4(q, at_q + step / 4 * tile_rows * 128 + swizzled(warp_row + lane % 16, step % 4 * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::uint32_t k[4];
        load_matrix_x4(
            k, at_k + step / 4 * Tile::kBox + swizzled(16 * j + lane / 16 * 8 + lane % 8, step % 4 * 2 + lane / 8 % 2));
        const std::uint32_t k0[2] = {k[0], k[1]}, k1[2] = {k[2], k[3]};
        mma(reinterpret_cast<float(&)[4]>(s[8 * j]), q, k0);
        mma(reinterpret_cast<float(&)[4]>(s[8 * j + 4]), q, k1);
      }
    }
  };
  // Scores to weights, in place; base, sum and the factor of what was summed before.
  const auto weigh = [&](int tile) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (tile * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2 > position[i / 2 % 2]) s[i] = -INFINITY;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float top = -INFINITY;
#pragma unroll
      for (int j = 0; j < 8; ++j) top = fmaxf(top, fmaxf(s[4 * j + 2 * i], s[4 * j + 2 * i + 1]));
      weigh_row(s, i, top, arg.scale_log2, base[i], sum[i], factor[i]);
    }
  };
  const auto sum_values = [&](std::uint32_t at_v) {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) acc[i] *= factor[i / 2 % 2];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) p[i] = pack_bf16(s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        std::uint32_t v[4];
        load_matrix_x4_transposed(v,
                                  at_v + j / 4 * Tile::kBox + swizzled(16 * step + lane % 16, j % 4 * 2 + lane / 16));
        const std::uint32_t v0[2] = {v[0], v[1]}, v1[2] = {v[2], v[3]};
        mma(reinterpret_cast<float(&)[4]>(acc[8 * j]), p, v0);
        mma(reinterpret_cast<float(&)[4]>(acc[8 * j + 4]), p, v1);
      }
    }
  };
  const auto close_split = [&] {
    for (int i = 0; i < 2; ++i) totals[i].close(base[i], quad_sum(sum[i]));
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      total[i] = totals[i / 2 % 2].combine(total[i], acc[i]);
      acc[i] = 0.0f;
    }
    for (int i = 0; i < 2; ++i) base[i] = -INFINITY, sum[i] = 0.0f;
  };

  fetch_rows<D>(at_q, tile_rows, n_rows,
                [&](int row) { return arg.q + row_offset<D>(arg, item.first_token, kv_head, row0 + row); });
  if constexpr (Tile::kStages > 1) fetch(0);
  for (int tile = 0; tile < n_tiles; ++tile) {
    fetch(tile + Tile::kStages - 1);
    wait_copies<Tile::kStages - 1>();
    __syncthreads();
    if (tile < n_own) {
      const std::uint32_t at_k = tiles + tile % Tile::kStages * Tile::kStageBytes;
      score(at_k);
      if (tile > 0 && tile % kSplitTiles == 0) close_split();
      weigh(tile);
      sum_values(at_k + Tile::kBoxes * Tile::kBox);
    }
    __syncthreads();
  }
  close_split();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = warp_row + lane / 4 + 8 * i;
    if (row >= n_rows) continue;
    const float inverse = 1.0f / totals[i].sum;
    __nv_bfloat16* to = arg.out + row_offset<D>(arg, item.first_token, kv_head, row0 + row) + first_column;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
      *reinterpret_cast<__nv_bfloat162*>(to + j * 8 + lane % 4 * 2) =
          __floats2bfloat162_rn(total[j * 4 + 2 * i] * inverse, total[j * 4 + 2 * i + 1] * inverse);
  }
}

template <int D>
void launch_attention(LaunchStream stream, const AttentionArguments& arg, int max_items) {
  auto kernel = attention_kernel<D>;
  static const bool ready = (allow_shared(kernel, Tile<D>::shared_bytes(64)), true);
  static_cast<void>(ready);
  const dim3 grid(max_items, arg.n_kv_heads, Tile<D>::kParts);
  launch(stream, grid, kThreads, Tile<D>::shared_bytes(arg.work.tile_rows), kernel, arg);
}

}  // namespace

void attend(LaunchStream stream, const AttentionArguments& arg, int head_dim, int max_items) {
  switch (head_dim) {
    case 16:
      return launch_attention<16>(stream, arg, max_items);
    case 32:
      return launch_attention<32>(stream, arg, max_items);
    case 64:
      return launch_attention<64>(stream, arg, max_items);
    case 96:
      return launch_attention<96>(stream, arg, max_items);
    case 128:
      return launch_attention<128>(stream, arg, max_items);
    default:
      CHECK(head_dim == 256);  // the backend supports no other
      return launch_attention<256>(stream, arg, max_items);
  }
}

}  // namespace monograph::cuda::sm80
