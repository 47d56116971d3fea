// The product for many rows: bulk tensor copies feed a ring in shared memory, one or two warpgroups run wgmma on it,
// one thread keeps it filled. CTAs form clusters of CM x CN tiles: those of one row of tiles share the rows of `a`,
// those of one column the weights, each CTA fetching its part for all (multicast). The row count is read from the
// device, so tiles past it cost nothing; where tiles outnumber CTAs, each CTA goes on to its next tile while the ring
// fills.
#pragma once
#include <algorithm>

#include "base/check.h"
#include "ops/cuda/gemm_epilogues.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_map.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

template <int BM_, int BN_, int CM_, int CN_>
struct WideTile {
  static constexpr int BM = BM_, BN = BN_, CM = CM_, CN = CN_, kCtas = CM * CN, kConsumers = BM / 64;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kABytes = BM * 128, kWBytes = BN * 128, kStageBytes = kABytes + kWBytes;
  // Small tiles leave room for the next kernel's CTA, whose weights are then under way early.
  static constexpr bool kSmall = BM == 64 && kStageBytes <= 24 * 1024;
  static constexpr int kStages = std::min(12, (kSmall ? 104 * 1024 : 200 * 1024) / kStageBytes);
  static constexpr int kExchangeBytes = BN < 256 && CN > 1 ? kMaxGroups* BM * 4 : 0;
  static constexpr bool kSplitsRegisters = kConsumers == 2 && !kSmall;
  static constexpr int kShared = kStages * kStageBytes + 1024 + kExchangeBytes + 16 * kStages + 16;  // 1024: alignment
  static_assert(BM / CN >= 8);
  static_assert(BN / CM >= 8 && kCtas <= 8);
};

/// How many groups of tiles (a cluster's) there are, and which is whose. Groups go column by column within bands of
/// kBand rows of groups, so that what runs at one time shares rows and weights in L2.
template <typename Tile>
struct WideGrid {
  static constexpr int kRows = Tile::BM * Tile::CM, kColumns = Tile::BN * Tile::CN, kBand = 8;
  int n_rows, n_columns;
  __host__ __device__ WideGrid(int rows, int n)
      : n_rows((rows + kRows - 1) / kRows), n_columns((n + kColumns - 1) / kColumns) {}
  __host__ __device__ int n_items() const { return n_rows * n_columns; }
  /// First row and column of a group.
  __device__ int2 origin(int item) const {
    const int band = item / (kBand * n_columns), in_band = item % (kBand * n_columns);
    const int rows = min(kBand, n_rows - band * kBand);
    return make_int2((band * kBand + in_band % rows) * kRows, in_band / rows * kColumns);
  }
};

template <typename Tile, bool kSegments, typename Epilogue>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kSmall ? 2 : 1)
    wide_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_w,
                const __grid_constant__ GemmInputs in, const __grid_constant__ Epilogue epilogue) {
#if __CUDA_ARCH__ >= 900
  constexpr int BM = Tile::BM, BN = Tile::BN, CM = Tile::CM, CN = Tile::CN, kStages = Tile::kStages;
  extern __shared__ unsigned char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023) & ~1023u, exchange = base + kStages * Tile::kStageBytes;
  const std::uint32_t full = exchange + Tile::kExchangeBytes, empty = full + kStages * 8,
                      exchanged = empty + kStages * 8;
  const int warpgroup = threadIdx.x / 128, n_chunks = in.k / 64;
  const int rank = Tile::kCtas > 1 ? static_cast<int>(cluster_rank()) : 0, cm = rank % CM, cn = rank / CM;
  const int cluster = blockIdx.x / Tile::kCtas, n_clusters = gridDim.x / Tile::kCtas;
  let_successor_start();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + s * 8, 1);
      barrier_init(empty + s * 8, Tile::kConsumers * (CM + CN - 1));
    }
    if constexpr (Tile::kExchangeBytes > 0) barrier_init(exchanged, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if constexpr (Tile::kCtas > 1)
    cluster_sync();
  else
    __syncthreads();

  // One item a cluster: known before the row count is, so its weights are fetched before the wait.
  const WideGrid<Tile> most(in.max_rows, in.n);
  const bool single = most.n_items() <= n_clusters;
  if (warpgroup == 0) {
    if constexpr (Tile::kSplitsRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      int s = 0, parity = 1;
      const auto fetch_w = [&](int chunk, int n0) {
        const std::uint32_t to = base + s * Tile::kStageBytes + Tile::kABytes + cm * (Tile::kWBytes / CM);
        if constexpr (CM > 1)
          copy_box_to_all(to, &map_w, chunk * 64, n0 + cm * (BN / CM), full + s * 8, ((1 << CM) - 1) << (cn * CM));
        else
          copy_box(to, &map_w, chunk * 64, n0, full + s * 8);
      };
      std::uint16_t row_of_ctas = 0;
      for (int i = 0; i < CN; ++i) row_of_ctas |= 1 << (i * CM + cm);
      const auto fetch_a = [&](int chunk, int m0) {
        const std::uint32_t to = base + s * Tile::kStageBytes + cn * (Tile::kABytes / CN);
        if constexpr (CN > 1)
          copy_box_to_all(to, &map_a, chunk * 64, m0 + cn * (BM / CN), full + s * 8, row_of_ctas);
        else
          copy_box(to, &map_a, chunk * 64, m0, full + s * 8);
      };
      const auto step = [&] {
        if (++s == kStages) s = 0, parity ^= 1;
      };
      const int prologue = single && cluster < most.n_items() ? min(n_chunks, kStages) : 0;
      const int first_n = most.origin(cluster).y + cn * BN;
      for (int chunk = 0; chunk < prologue; ++chunk, step()) {
        barrier_expect(full + s * 8, Tile::kStageBytes);
        fetch_w(chunk, first_n);
      }
      s = 0, parity = 1;
      wait_for_predecessor();
      const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
      const WideGrid<Tile> grid(single ? in.max_rows : rows, in.n);
      for (int item = cluster; item < grid.n_items(); item += n_clusters) {
        const int2 origin = grid.origin(item);
        const int m0 = origin.x + cm * BM, n0 = origin.y + cn * BN;
        const bool works = origin.x < rows;
        for (int chunk = 0; chunk < n_chunks; ++chunk, step()) {
          if (chunk < prologue) {
            fetch_a(chunk, m0);
            continue;
          }
          // Without rows, only what is already asked for comes.
          if (!works) break;
          barrier_wait(empty + s * 8, parity);
          barrier_expect(full + s * 8, Tile::kStageBytes);
          fetch_w(chunk, n0);
          fetch_a(chunk, m0);
        }
        if (!works)
          for (int chunk = 0; chunk < prologue; ++chunk) barrier_wait(full + chunk * 8, 0);
      }
    }
  } else {
    if constexpr (Tile::kSplitsRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    wait_for_predecessor();
    const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
    const WideGrid<Tile> grid(single ? in.max_rows : rows, in.n);
    const int thread = threadIdx.x % 128, lane = thread % 32,
              wg_row = (warpgroup - 1) * 64 + thread / 32 * 16 + lane / 4;
    const int n_segments = kSegments ? k_segments(in.n, in.k) : 1, per_segment = n_chunks / n_segments;
    // The same for all lanes, and known to be.
    const int wg = __shfl_sync(~0u, warpgroup - 1, 0);
    const std::uint64_t first_a = operand(base + wg * 64 * 128), first_w = operand(base + Tile::kABytes);
    int s = 0, parity = 0;
    // A stage is free once every CTA that reads what this one's peers wrote has read it.
    const auto release = [&](int stage) {
      if constexpr (Tile::kCtas == 1) {
        if (thread == 0) barrier_arrive(empty + stage * 8);
      } else if (thread < CM + CN - 1) {
        const int peer = thread < CM ? cn * CM + thread : ((thread - CM) + (thread - CM >= cn ? 1 : 0)) * CM + cm;
        barrier_arrive_in_cta(empty + stage * 8, peer);
      }
    };
    for (int item = cluster; item < grid.n_items(); item += n_clusters) {
      const int2 origin = grid.origin(item);
      if (origin.x >= rows) continue;
      const int m0 = origin.x + cm * BM, n0 = origin.y + cn * BN;
      float d[BN / 2], total[kSegments ? BN / 2 : 1];
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) d[i] = 0.0f;
      int last = -1;
      for (int segment = 0; segment < n_segments; ++segment) {
        for (int chunk = 0; chunk < per_segment; ++chunk) {
          barrier_wait(full + s * 8, parity);
          const std::uint64_t a = first_a + s * (Tile::kStageBytes / 16), w = first_w + s * (Tile::kStageBytes / 16);
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < 4; ++step) Wgmma<BN>::run(d, a + step * 2, w + step * 2);
          wgmma_commit();
          wgmma_wait<1>();  // the chunk before this one has been read
          if (last >= 0) release(last);
          last = s;
          if (++s == kStages) s = 0, parity ^= 1;
        }
        wgmma_wait<0>();
        if constexpr (kSegments)
          if (n_segments > 1) add_segment<BN>(d, total, segment == 0);
      }
      release(last);
      if constexpr (kSegments)
        if (n_segments > 1)
#pragma unroll
          for (int i = 0; i < BN / 2; ++i) d[i] = total[i];
      if constexpr (Epilogue::kWholeHeads) {
        const HeadExchange peers{exchange, exchanged, BM, CM, rank};
        epilogue.template store<BN>(d, m0 + wg_row, n0, rows, in.n, wg_row, peers);
      } else {
        store_pieces<BN>(epilogue, d, m0 + wg_row, n0, rows, in.n);
      }
    }
  }
  // No CTA leaves while others may still write to its shared memory.
  if constexpr (Tile::kCtas > 1) cluster_sync();
#endif
}

template <typename Tile, bool kSegments, typename Epilogue>
void launch_wide(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  auto kernel = wide_kernel<Tile, kSegments, Epilogue>;
  // How many clusters the GPU holds at once: multiprocessors that a cluster cannot fill stay idle.
  static const int most_clusters = [&] {
    allow_shared(kernel, Tile::kShared);
    return resident_clusters(kernel, Tile::kThreads, Tile::kShared, Tile::kCtas);
  }();
  const CUtensorMap a = make_tensor_map(in.a, in.max_rows, in.k, Tile::BM / Tile::CN),
                    w = make_tensor_map(in.w, in.n, in.k, Tile::BN / Tile::CM);
  const int n_items = WideGrid<Tile>(in.max_rows, in.n).n_items(), n_clusters = std::min(most_clusters, n_items);
  if constexpr (Epilogue::kWholeHeads) CHECK(Tile::BN >= epilogue.head_dim || n_clusters == n_items);
  launch_clusters(stream, Tile::kCtas, n_clusters * Tile::kCtas, Tile::kThreads, Tile::kShared, kernel, a, w, in,
                  epilogue);
}

}  // namespace monograph::cuda
