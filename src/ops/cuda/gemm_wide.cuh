// The product for many rows: bulk tensor copies feed a ring in shared memory, two warpgroups run wgmma on it, one more
// warp keeps it filled. The row count is read from the device, so tiles past it cost nothing.
#pragma once
#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

/// A [rows, K] bf16 matrix as boxes of `box_rows` x 64, 128-byte swizzled.
CUtensorMap make_tensor_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows);

template <int BN>
struct WideTile {
  static constexpr int kRows = 128, kStages = BN == 256 ? 4 : BN == 128 ? 6 : 8;
  static constexpr int kABytes = kRows * 128, kWBytes = BN * 128, kStageBytes = kABytes + kWBytes;
  static constexpr int kShared = kStages * kStageBytes + 1024 + 256;  // alignment, barriers
  static constexpr int kThreads = 384;
};

// Grid: x over row tiles (neighbours share weights in L2), y over column tiles. Warpgroup 0 copies, 1 and 2 each own 64
// rows.
template <int BN, typename Epilogue>
__global__ void __launch_bounds__(384, 1)
    wide_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_w, GemmInputs in,
                Epilogue epilogue) {
#if __CUDA_ARCH__ >= 900
  using Tile = WideTile<BN>;
  extern __shared__ unsigned char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023) & ~1023u;
  const std::uint32_t full = base + Tile::kStages * Tile::kStageBytes, empty = full + Tile::kStages * 8;
  const int warpgroup = threadIdx.x / 128, m0 = blockIdx.x * Tile::kRows, n0 = blockIdx.y * BN, n_chunks = in.k / 64;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Tile::kStages; ++s) {
      barrier_init(full + s * 8, 1);
      barrier_init(empty + s * 8, 2);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  let_successor_start();

  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x != 0) return;
    const auto fetch_w = [&](int chunk) {
      const int s = chunk % Tile::kStages;
      barrier_expect(full + s * 8, Tile::kStageBytes);
      copy_box(base + s * Tile::kStageBytes + Tile::kABytes, &map_w, chunk * 64, n0, full + s * 8);
    };
    const auto fetch_a = [&](int chunk) {
      const int s = chunk % Tile::kStages;
      copy_box(base + s * Tile::kStageBytes, &map_a, chunk * 64, m0, full + s * 8);
    };
    const int prologue = n_chunks < Tile::kStages ? n_chunks : Tile::kStages;
    for (int chunk = 0; chunk < prologue; ++chunk) fetch_w(chunk);
    wait_for_predecessor();
    const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
    const bool works = m0 < rows;
    for (int chunk = 0; chunk < prologue; ++chunk) fetch_a(chunk);
    // A tile without rows only waits for what it has already asked for.
    for (int chunk = prologue; works && chunk < n_chunks; ++chunk) {
      barrier_wait(empty + (chunk % Tile::kStages) * 8, ((chunk / Tile::kStages) & 1) ^ 1);
      fetch_w(chunk);
      fetch_a(chunk);
    }
    if (!works)
      for (int chunk = 0; chunk < prologue; ++chunk) barrier_wait(full + chunk * 8, 0);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  wait_for_predecessor();
  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  if (m0 >= rows) return;
  float d[BN / 2];
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) d[i] = 0.0f;
  const std::uint32_t a_offset = (warpgroup - 1) * 64 * 128;
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    const int s = chunk % Tile::kStages;
    barrier_wait(full + s * 8, (chunk / Tile::kStages) & 1);
    const std::uint32_t at = base + s * Tile::kStageBytes;
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      Wgmma<BN>::run(d, operand(at + a_offset + step * 32), operand(at + Tile::kABytes + step * 32), 1);
    wgmma_commit();
    // The chunk before this one has been read by now; its stage may be filled again.
    wgmma_wait<1>();
    if (chunk > 0 && threadIdx.x % 128 == 0) barrier_arrive(empty + ((chunk - 1) % Tile::kStages) * 8);
  }
  wgmma_wait<0>();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int m = m0 + (warpgroup - 1) * 64 + warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int n = n0 + j * 8 + (lane % 4) * 2;
    if (n >= in.n) continue;
    if (m < rows) epilogue(m, n, d[j * 4], d[j * 4 + 1]);
    if (m + 8 < rows) epilogue(m + 8, n, d[j * 4 + 2], d[j * 4 + 3]);
  }
#endif
}

template <int BN, typename Epilogue>
void launch_wide(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  using Tile = WideTile<BN>;
  auto kernel = wide_kernel<BN, Epilogue>;
  static const bool ready = (allow_shared(kernel, Tile::kShared), true);
  static_cast<void>(ready);
  const CUtensorMap a = make_tensor_map(in.a, in.max_rows, in.k, Tile::kRows),
                    w = make_tensor_map(in.w, in.n, in.k, BN);
  const dim3 grid((in.max_rows + Tile::kRows - 1) / Tile::kRows, (in.n + BN - 1) / BN);
  launch(stream, grid, Tile::kThreads, Tile::kShared, kernel, a, w, in, epilogue);
}

}  // namespace monograph::cuda
