// The product for a few dozen rows, with mma.sync: a ring of K chunks in shared memory; the weights' first chunks are
// fetched before the wait for the predecessor.
#pragma once
#include <algorithm>

#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda {

template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES>
struct GemmTile {
  static constexpr int kThreads = 32 * WARPS_M * WARPS_N;
  static constexpr int kChunk = 64;  // K per stage: 128 bytes a row
  static constexpr int kStageBytes = (BM + BN) * 128;
  static constexpr int kShared = STAGES * kStageBytes;
  static constexpr int kMTiles = BM / WARPS_M / 16, kNTiles = BN / WARPS_N / 8;
  static_assert(kMTiles >= 1 && kNTiles >= 1);
};

// One CTA per BM x BN tile of the output; warps tile it; K runs through the ring in order, so the sum's order is fixed.
template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES, typename Epilogue>
__global__ void __launch_bounds__(32 * WARPS_M * WARPS_N) gemm_kernel(GemmInputs in, Epilogue epilogue) {
  using Tile = GemmTile<BM, BN, WARPS_M, WARPS_N, STAGES>;
  extern __shared__ __align__(128) unsigned char shared[];
  const std::uint32_t base = shared_address(shared);
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int n0 = blockIdx.x * BN, m0 = blockIdx.y * BM;
  const int n_chunks = in.k / Tile::kChunk;

  const auto fetch_w = [&](int chunk) {
    const std::uint32_t to = base + (chunk % STAGES) * Tile::kStageBytes + BM * 128;
    for (int i = thread; i < BN * 8; i += Tile::kThreads) {
      const int row = i / 8, column = i % 8;
      const bool valid = n0 + row < in.n;
      copy16(to + swizzled(row, column),
             in.w + static_cast<std::int64_t>(valid ? n0 + row : 0) * in.k + chunk * 64 + column * 8, valid);
    }
  };
  const int prologue = n_chunks < STAGES - 1 ? n_chunks : STAGES - 1;
  for (int chunk = 0; chunk < prologue; ++chunk) fetch_w(chunk);
  let_successor_start();
  wait_for_predecessor();

  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  if (m0 >= rows) {
    wait_copies<0>();
    return;
  }
  const auto fetch_a = [&](int chunk) {
    const std::uint32_t to = base + (chunk % STAGES) * Tile::kStageBytes;
    for (int i = thread; i < BM * 8; i += Tile::kThreads) {
      const int row = i / 8, column = i % 8;
      const bool valid = m0 + row < rows;
      copy16(to + swizzled(row, column),
             in.a + static_cast<std::int64_t>(valid ? m0 + row : 0) * in.k + chunk * 64 + column * 8, valid);
    }
  };
  for (int chunk = 0; chunk < STAGES - 1; ++chunk) {
    if (chunk < n_chunks) fetch_a(chunk);
    commit_copies();
  }

  float c[Tile::kMTiles][Tile::kNTiles][4] = {};
  const int warp_m = (warp / WARPS_N) * (BM / WARPS_M), warp_n = (warp % WARPS_N) * (BN / WARPS_N);
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (const int next = chunk + STAGES - 1; next < n_chunks) {
      fetch_w(next);
      fetch_a(next);
    }
    commit_copies();
    const std::uint32_t at_a = base + (chunk % STAGES) * Tile::kStageBytes, at_w = at_a + BM * 128;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t a[Tile::kMTiles][4];
#pragma unroll
      for (int i = 0; i < Tile::kMTiles; ++i)
        load_matrix_x4(a[i], at_a + swizzled(warp_m + i * 16 + lane % 16, step * 2 + lane / 16));
      if constexpr (Tile::kNTiles % 2 == 0) {
#pragma unroll
        for (int j = 0; j < Tile::kNTiles; j += 2) {
          std::uint32_t b[4];
          load_matrix_x4(b, at_w + swizzled(warp_n + j * 8 + (lane / 16) * 8 + lane % 8, step * 2 + (lane / 8) % 2));
          const std::uint32_t b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
#pragma unroll
          for (int i = 0; i < Tile::kMTiles; ++i) {
            mma(c[i][j], a[i], b0);
            mma(c[i][j + 1], a[i], b1);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < Tile::kNTiles; ++j) {
          std::uint32_t b[2];
          load_matrix_x2(b, at_w + swizzled(warp_n + j * 8 + lane % 8, step * 2 + (lane / 8) % 2));
#pragma unroll
          for (int i = 0; i < Tile::kMTiles; ++i) mma(c[i][j], a[i], b);
        }
      }
    }
  }
  wait_copies<0>();

#pragma unroll
  for (int i = 0; i < Tile::kMTiles; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kNTiles; ++j) {
      const int m = m0 + warp_m + i * 16 + lane / 4, n = n0 + warp_n + j * 8 + (lane % 4) * 2;
      if (n >= in.n) continue;
      if (m < rows) epilogue(m, n, c[i][j][0], c[i][j][1]);
      if (m + 8 < rows) epilogue(m + 8, n, c[i][j][2], c[i][j][3]);
    }
}

template <int BM, int BN, int WARPS_M, int WARPS_N, int STAGES, typename Epilogue>
void launch_tile(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  using Tile = GemmTile<BM, BN, WARPS_M, WARPS_N, STAGES>;
  auto kernel = gemm_kernel<BM, BN, WARPS_M, WARPS_N, STAGES, Epilogue>;
  static const bool ready = (allow_shared(kernel, Tile::kShared), true);
  static_cast<void>(ready);
  const dim3 grid((in.n + BN - 1) / BN, (in.max_rows + BM - 1) / BM);
  launch(stream, grid, Tile::kThreads, Tile::kShared, kernel, in, epilogue);
}

}  // namespace monograph::cuda
