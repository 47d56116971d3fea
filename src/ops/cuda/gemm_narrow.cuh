// The product for at most 16 rows: a latency problem. Each warp owns 8 weight rows for all of K; a copying warp streams
// their chunks through a ring of bulk copies that starts before the wait for the predecessor. With a norm, every CTA
// normalises the rows itself, which costs less than a kernel between two products.
#pragma once
#include <algorithm>

#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/row_norm.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

inline constexpr int kNarrowRows = 16, kNarrowChunk = 512, kNarrowPitch = kNarrowChunk * 2 + 16;

struct NarrowPlan {
  int n_stages, shared_bytes, stage_bytes, a_pitch;
};

template <int WARPS, bool kNorm>
NarrowPlan narrow_plan(int k) {
  NarrowPlan plan{};
  plan.stage_bytes = (8 * WARPS + (kNorm ? 0 : kNarrowRows)) * kNarrowPitch;
  plan.a_pitch = k * 2 + 16;
  const int resident = kNorm ? kNarrowRows * plan.a_pitch : 0;
  const int n_chunks = (k + kNarrowChunk - 1) / kNarrowChunk;
  // Two CTAs share an SM where that still leaves a ring worth having, so that the next kernel's weights are under way
  // early.
  const int wanted = resident + plan.stage_bytes * std::min(n_chunks, 4) <= 110 * 1024 ? 110 * 1024 : 220 * 1024;
  plan.n_stages =
      std::max(2, std::min({n_chunks < 2 ? 2 : n_chunks, 16, (wanted - resident - 512) / plan.stage_bytes}));
  plan.shared_bytes = resident + plan.n_stages * plan.stage_bytes + 2 * 8 * plan.n_stages + 16;
  return plan;
}

template <int WARPS, bool kNorm, typename Epilogue>
__global__ void __launch_bounds__(32 * (WARPS + 1))
    narrow_kernel(GemmInputs in, RowNorm norm, NarrowPlan plan, Epilogue epilogue) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char raw[];
  const std::uint32_t base = shared_address(raw), resident = base + plan.n_stages * plan.stage_bytes;
  const std::uint32_t full = resident + (kNorm ? kNarrowRows * plan.a_pitch : 0), empty = full + plan.n_stages * 8;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int n_chunks = (in.k + kNarrowChunk - 1) / kNarrowChunk, n_tiles = (in.n + 8 * WARPS - 1) / (8 * WARPS);
  if (threadIdx.x == 0) {
    for (int s = 0; s < plan.n_stages; ++s) {
      barrier_init(full + s * 8, kNorm ? 1 : 2);
      barrier_init(empty + s * 8, WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  let_successor_start();

  if (warp == WARPS) {
    // The copying warp: items are (tile, chunk) in the order they are consumed.
    const int n_items =
        ((n_tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x)) *
        n_chunks;
    const auto fetch_w = [&](int item) {
      const int s = item % plan.n_stages, chunk = item % n_chunks,
                n0 = (blockIdx.x + item / n_chunks * gridDim.x) * 8 * WARPS;
      const int bytes = min(kNarrowChunk, in.k - chunk * kNarrowChunk) * 2, n_rows = min(8 * WARPS, in.n - n0);
      if (lane == 0) barrier_expect(full + s * 8, bytes * n_rows);
      __syncwarp();
      for (int row = lane; row < n_rows; row += 32)
        copy_bytes(base + s * plan.stage_bytes + row * kNarrowPitch,
                   in.w + static_cast<std::int64_t>(n0 + row) * in.k + chunk * kNarrowChunk, bytes, full + s * 8);
    };
    int n_a = 0;
    const auto fetch_a = [&](int item) {
      if constexpr (!kNorm) {
        const int s = item % plan.n_stages, chunk = item % n_chunks;
        const int bytes = min(kNarrowChunk, in.k - chunk * kNarrowChunk) * 2;
        if (lane == 0) barrier_expect(full + s * 8, bytes * n_a);
        __syncwarp();
        if (lane < n_a)
          copy_bytes(base + s * plan.stage_bytes + (8 * WARPS + lane) * kNarrowPitch,
                     in.a + static_cast<std::int64_t>(lane) * in.k + chunk * kNarrowChunk, bytes, full + s * 8);
      }
    };
    const int prologue = min(n_items, plan.n_stages);
    for (int item = 0; item < prologue; ++item) fetch_w(item);
    wait_for_predecessor();
    n_a = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
    for (int item = 0; item < prologue; ++item) fetch_a(item);
    for (int item = prologue; item < n_items; ++item) {
      barrier_wait(empty + (item % plan.n_stages) * 8, ((item / plan.n_stages) & 1) ^ 1);
      fetch_w(item);
      fetch_a(item);
    }
    return;
  }

  wait_for_predecessor();
  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  if constexpr (kNorm) {
    for (int m = warp; m < rows; m += WARPS) {
      const int from = norm.rows ? norm.rows[m] : m;
      if (from >= 0)
        normalise_row(raw + plan.n_stages * plan.stage_bytes + m * plan.a_pitch,
                      in.a + static_cast<std::int64_t>(from) * in.k, norm.weight, norm.eps, in.k);
    }
    asm volatile("bar.sync 1, %0;" ::"n"(32 * WARPS) : "memory");
  }
  int item = 0;
  for (int tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
    float c[4] = {};
    for (int chunk = 0; chunk < n_chunks; ++chunk, ++item) {
      const int s = item % plan.n_stages, steps = min(kNarrowChunk, in.k - chunk * kNarrowChunk) / 32;
      barrier_wait(full + s * 8, (item / plan.n_stages) & 1);
      const std::uint32_t at_w = base + s * plan.stage_bytes + (warp * 8 + lane % 8) * kNarrowPitch + (lane / 8) * 16;
      const std::uint32_t at_a =
          kNorm ? resident + (lane % 16) * plan.a_pitch + chunk * kNarrowChunk * 2 + (lane / 16) * 16
                : base + s * plan.stage_bytes + (8 * WARPS + lane % 16) * kNarrowPitch + (lane / 16) * 16;
      // Two groups of two steps in registers: one is multiplied while the other is on its way out of shared memory.
      std::uint32_t w[2][2][4], a[2][4][4];
      const auto load = [&](int buffer, int step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_matrix_x4(w[buffer][i], at_w + (step + i) * 64);
          load_matrix_x4(a[buffer][2 * i], at_a + (step + i) * 64);
          load_matrix_x4(a[buffer][2 * i + 1], at_a + (step + i) * 64 + 32);
        }
      };
      const auto multiply = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t low[2] = {w[buffer][i][0], w[buffer][i][1]}, high[2] = {w[buffer][i][2], w[buffer][i][3]};
          mma(c, a[buffer][2 * i], low);
          mma(c, a[buffer][2 * i + 1], high);
        }
      };
      // A chunk is a multiple of two steps (64 values).
      load(0, 0);
      for (int step = 0; step < steps; step += 4) {
        if (step + 2 < steps) load(1, step + 2);
        multiply(0);
        if (step + 2 >= steps) break;
        if (step + 4 < steps) load(0, step + 4);
        multiply(1);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + s * 8);
    }
    const int n = tile * 8 * WARPS + warp * 8 + (lane % 4) * 2, m = lane / 4;
    if (n >= in.n) continue;
    if (m < rows) epilogue(m, n, c[0], c[1]);
    if (m + 8 < rows) epilogue(m + 8, n, c[2], c[3]);
  }
#endif
}

template <int WARPS, bool kNorm, typename Epilogue>
void launch_narrow(cudaStream_t stream, const GemmInputs& in, const RowNorm& norm, int max_ctas,
                   const Epilogue& epilogue) {
  auto kernel = narrow_kernel<WARPS, kNorm, Epilogue>;
  static const bool ready = (allow_shared(kernel, 227 * 1024), true);
  static_cast<void>(ready);
  const NarrowPlan plan = narrow_plan<WARPS, kNorm>(in.k);
  const int n_tiles = (in.n + 8 * WARPS - 1) / (8 * WARPS);
  launch(stream, std::min(n_tiles, max_ctas), 32 * (WARPS + 1), plan.shared_bytes, kernel, in, norm, plan, epilogue);
}

}  // namespace monograph::cuda
