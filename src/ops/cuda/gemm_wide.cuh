// The product for many rows: bulk tensor copies feed a ring in shared memory, one or two warpgroups run wgmma on it,
// one thread keeps it filled. CTAs form clusters of CM x CN tiles: those of one row of tiles share the rows of `a`,
// those of one column the weights, each CTA fetching its part for all (multicast). Or a cluster has one tile, and each
// of its CTAs a segment of K. The row count is read from the device, so tiles past it cost nothing; where tiles
// outnumber CTAs, each CTA goes on to its next tile while the ring fills.
#pragma once
#include <algorithm>

#include "base/check.h"
#include "ops/cuda/gemm_epilogues.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_map.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

/// kSegments_: whether it can sum segments of K apart (k_segments), which takes twice the accumulators. CK_: or so many
/// segments in so many CTAs of a cluster, which share nothing else.
template <int BM_, int BN_, int CM_, int CN_, bool kSegments_ = false, int CK_ = 1, bool kDeep_ = false>
struct WideTile {
  static constexpr int BM = BM_, BN = BN_, CM = CM_, CN = CN_, CK = CK_, kSharing = CM * CN, kCtas = kSharing * CK,
                       kConsumers = BM / 64;
  static constexpr bool kSegments = kSegments_;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  // A stage holds kDepth boxes of 64 values of K: where little is computed on one, two a barrier cost less.
  static constexpr int kABytes = BM * 128, kWBytes = BN * 128, kBoxBytes = kABytes + kWBytes,
                       kDepth = kBoxBytes <= 24 * 1024 ? 2 : 1, kStageBytes = kDepth * kBoxBytes;
  // Small tiles leave room for a second CTA, the next kernel's, whose weights are then under way early. kDeep: they do
  // not, for the ring's length bounds what can be under way.
  static constexpr bool kDeep = kDeep_, kSmall = BM == 64 && kBoxBytes <= 24 * 1024 && !kDeep;
  static constexpr int kStages = std::min(12, (kSmall ? 104 : 200) * 1024 / kStageBytes);
  static constexpr int kExchangeBytes = BN < 256 && CN > 1 ? kMaxGroups* BM * 4 : 0;
  static constexpr bool kSplitsRegisters = kConsumers == 2 && !kSmall;
  static constexpr int kScaleBytes = BM * 4;
  // A warp's accumulators of 16 rows, of each segment.
  static constexpr int kMeetBytes = CK > 1 ? CK* kConsumers * 32 * BN * 2 : 0;
  static_assert(CK == 1 || (CK == 4 && kSharing == 1 && !kSegments && kMeetBytes <= kStages * kStageBytes));
  // 1024: alignment
  static constexpr int kShared = kStages * kStageBytes + 1024 + kExchangeBytes + kScaleBytes + 16 * kStages + 16;
  static_assert(BM / CN >= 8 && BN / CM >= 8 && kCtas <= 8 && kStages >= 2);
};

/// A small tile with a long ring.
template <int BM, int BN, int CM, int CN, bool kSegments = false>
using DeepTile = WideTile<BM, BN, CM, CN, kSegments, 1, true>;

/// Whether a tile sums the segments of these products as they are to be.
template <typename Tile>
bool sums_segments(int n, int k) {
  const int segments = k_segments(n, k);
  return Tile::CK > 1 ? segments == Tile::CK : Tile::kSegments || segments == 1;
}

/// Whether a head of the qkv product is spread over the CTAs of a cluster.
template <typename Tile, typename Epilogue>
constexpr bool spreads_heads() {
  if constexpr (Epilogue::kWholeHeads)
    return Tile::BN < Epilogue::kHeadDim;
  else
    return false;
}

/// Bytes that other CTAs of a cluster send to one of them after the sums, once a kernel.
template <typename Tile, typename Epilogue>
constexpr int bytes_to_meet() {
  if constexpr (spreads_heads<Tile, Epilogue>())
    return HeadExchange::bytes(Epilogue::kGroups, Tile::BM);
  else
    return Tile::kMeetBytes;
}

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

/// The segments of K of a product, in stages of kDepth boxes of 64 values.
template <typename Tile>
struct WideSegments {
  int n, boxes, stages;  // boxes and stages of each
  int first;             // column of the one that this CTA has
  __device__ explicit WideSegments(const GemmInputs& in)
      : n(Tile::kSegments ? k_segments(in.n, in.k) : 1),
        boxes(in.k / 64 / n / Tile::CK),
        stages((boxes + Tile::kDepth - 1) / Tile::kDepth),
        first(Tile::CK > 1 ? static_cast<int>(cluster_rank()) * boxes * 64 : 0) {}
  /// First column of a stage. The last stage of a segment may reach past it: what comes then is not used.
  __device__ int column(int stage) const {
    if constexpr (!Tile::kSegments) return first + stage * Tile::kDepth * 64;
    return (stage / stages * boxes + stage % stages * Tile::kDepth) * 64;
  }
};

/// Rows of a box of `a`, of which a CTA fetches one for its row of tiles. Rows that do not exist are copied, as zeros,
/// at half the speed: where there is just one row of tiles, only those that do.
template <typename Tile>
__host__ __device__ int a_box_rows(const GemmInputs& in) {
  const int rows = (in.max_rows + 8 * Tile::CN - 1) / (8 * Tile::CN) * 8;
  return in.max_rows <= Tile::BM && rows < Tile::BM / Tile::CN ? rows : Tile::BM / Tile::CN;
}

/// Segments of K meet: warp w's rows in CTA w, whose warp adds them up in the segments' order. `room` is this CTA's
/// ring, which it has read to its end, as has every other once all have met. Whether the warp's sums are whole now.
template <typename Tile>
__device__ __forceinline__ bool meet_segments(float (&d)[Tile::BN / 2], std::uint32_t room, std::uint32_t met) {
  constexpr int kPieces = Tile::BN / 8;
  const int rank = static_cast<int>(cluster_rank()), lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4,
            warpgroup = threadIdx.x / 128 - 1;
  const auto at = [&](int segment, int piece) {
    return room + (((segment * Tile::kConsumers + warpgroup) * kPieces + piece) * 32 + lane) * 16;
  };
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
    store_in_cta(at(rank, i), d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3], met, warp);
  if (warp != rank) return false;
  barrier_wait_cluster(met, 0);
#pragma unroll
  for (int segment = 0; segment < Tile::CK; ++segment)
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      float v[4];
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                   : "r"(at(segment, i)));
#pragma unroll
      for (int j = 0; j < 4; ++j) d[4 * i + j] = segment == 0 ? v[j] : d[4 * i + j] + v[j];
    }
  return true;
}

template <typename Tile, typename Epilogue>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kSmall ? 2 : 1)
    wide_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_w,
                const __grid_constant__ GemmInputs in, const __grid_constant__ Epilogue epilogue) {
#if __CUDA_ARCH__ >= 900
  constexpr int BM = Tile::BM, BN = Tile::BN, CM = Tile::CM, CN = Tile::CN, kStages = Tile::kStages,
                kDepth = Tile::kDepth;
  extern __shared__ unsigned char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023) & ~1023u, exchange = base + kStages * Tile::kStageBytes;
  const std::uint32_t full = exchange + Tile::kExchangeBytes + Tile::kScaleBytes, empty = full + kStages * 8,
                      exchanged = empty + kStages * 8;
  auto* const scales = reinterpret_cast<float*>(raw + (exchange + Tile::kExchangeBytes - shared_address(raw)));
  const int warpgroup = threadIdx.x / 128, rank = Tile::kSharing > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int cm = rank % CM, cn = rank / CM;
  const WideSegments<Tile> segments(in);
  const int a_box_bytes = a_box_rows<Tile>(in) * 128, stage_bytes = kDepth * (a_box_bytes * CN + Tile::kWBytes);
  const int cluster = blockIdx.x / Tile::kCtas, n_clusters = gridDim.x / Tile::kCtas;
  let_successor_start();
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + s * 8, 1);
      barrier_init(empty + s * 8, Tile::kConsumers * (CM + CN - 1));
    }
    if constexpr (constexpr int kBytes = bytes_to_meet<Tile, Epilogue>(); kBytes > 0) {
      barrier_init(exchanged, 1);
      barrier_expect(exchanged, kBytes);
    }
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
      const auto fetch_w = [&](int stage, int n0) {
#pragma unroll
        for (int box = 0; box < kDepth; ++box) {
          const int column = segments.column(stage) + box * 64;
          const std::uint32_t to =
              base + s * Tile::kStageBytes + box * Tile::kBoxBytes + Tile::kABytes + cm * (Tile::kWBytes / CM);
          if constexpr (CM > 1)
            copy_box_to_all(to, &map_w, column, n0 + cm * (BN / CM), full + s * 8, ((1 << CM) - 1) << (cn * CM));
          else
            copy_box(to, &map_w, column, n0, full + s * 8);
        }
      };
      std::uint16_t row_of_ctas = 0;
      for (int i = 0; i < CN; ++i) row_of_ctas |= 1 << (i * CM + cm);
      const auto fetch_a = [&](int stage, int m0) {
#pragma unroll
        for (int box = 0; box < kDepth; ++box) {
          const int column = segments.column(stage) + box * 64;
          const std::uint32_t to = base + s * Tile::kStageBytes + box * Tile::kBoxBytes + cn * a_box_bytes;
          if constexpr (CN > 1)
            copy_box_to_all(to, &map_a, column, m0 + cn * (a_box_bytes / 128), full + s * 8, row_of_ctas);
          else
            copy_box(to, &map_a, column, m0, full + s * 8);
        }
      };
      const auto step = [&] {
        if (++s == kStages) s = 0, parity ^= 1;
      };
      const int n_stages = segments.n * segments.stages;
      const int prologue = single && cluster < most.n_items() ? min(n_stages, kStages) : 0;
      const int2 first = most.origin(cluster);
#pragma unroll 1
      for (int stage = 0; stage < prologue; ++stage, step()) {
        barrier_expect(full + s * 8, stage_bytes);
        fetch_w(stage, first.y + cn * BN);
      }
      wait_for_predecessor();
      s = 0, parity = 1;
#pragma unroll 1
      for (int stage = 0; stage < prologue; ++stage, step()) fetch_a(stage, first.x + cm * BM);
      const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
      const WideGrid<Tile> grid(single ? in.max_rows : rows, in.n);
      for (int item = cluster; item < grid.n_items(); item += n_clusters) {
        const int2 origin = grid.origin(item);
        // Without rows, only what is already asked for comes.
        if (origin.x >= rows) break;
#pragma unroll 1
        for (int stage = prologue; stage < n_stages; ++stage, step()) {
          barrier_wait(empty + s * 8, parity);
          barrier_expect(full + s * 8, stage_bytes);
          fetch_w(stage, origin.y + cn * BN);
          fetch_a(stage, origin.x + cm * BM);
        }
      }
      if (first.x >= rows)
#pragma unroll 1
        for (int stage = 0; stage < prologue; ++stage) barrier_wait(full + stage * 8, 0);
    }
    if constexpr (Tile::CK > 1) cluster_arrive();  // for meet_segments, where all threads are counted
  } else {
    if constexpr (Tile::kSplitsRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    wait_for_predecessor();
    const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
    const WideGrid<Tile> grid(single ? in.max_rows : rows, in.n);
    const int thread = threadIdx.x % 128, lane = thread % 32,
              wg_row = (warpgroup - 1) * 64 + thread / 32 * 16 + lane / 4;
    const int wg = uniform(warpgroup - 1);
    const std::uint64_t first_a = operand(base + wg * 64 * 128), first_w = operand(base + Tile::kABytes);
    int s = 0, parity = 0;
    // A stage is free once every CTA that reads what this one's peers wrote has read it.
    const auto release = [&](int stage) {
      if constexpr (Tile::kSharing == 1) {
        if (thread == 0) barrier_arrive(empty + stage * 8);
      } else if (thread < CM + CN - 1) {
        const int peer = thread < CM ? cn * CM + thread : ((thread - CM) + (thread - CM >= cn ? 1 : 0)) * CM + cm;
        barrier_arrive_in_cta(empty + stage * 8, peer);
      }
    };
    for (int item = cluster; item < grid.n_items(); item += n_clusters) {
      const int2 origin = grid.origin(item);
      if (origin.x >= rows) continue;
      const int m = origin.x + cm * BM + wg_row, n0 = origin.y + cn * BN;
      const auto before = [&] {
        if constexpr (Epilogue::kWholeHeads)
          return epilogue.rows_at(m, rows);
        else
          return before_tile<BN>(epilogue, m, n0, rows, in.n);
      }();
      // A warp asks for the scales of its own 16 rows.
      const int warp_row = wg_row - lane / 4;
      RowScales of_rows;
      if (Epilogue::kAfterNorm && in.scale.ready)
        of_rows = {in.scale.ready[min(m, rows - 1)], in.scale.ready[min(m + 8, rows - 1)]};
      else if (Epilogue::kAfterNorm && in.scale.squares)
        leave_row_scales<8>(in, m - lane / 4, 16, rows, scales + warp_row, 0, 1);
      float d[BN / 2], total[Tile::kSegments ? BN / 2 : 1];
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) d[i] = 0.0f;
      hold(d);
      int last = -1;
      const auto multiply = [&]<int kBoxes>() {
        barrier_wait(full + s * 8, parity);
        const std::uint64_t a = first_a + s * (Tile::kStageBytes / 16), w = first_w + s * (Tile::kStageBytes / 16);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4 * kBoxes; ++step) {
          const int at = step / 4 * (Tile::kBoxBytes / 16) + step % 4 * 2;
          Wgmma<BN>::run(d, a + at, w + at);
        }
        wgmma_commit();
        wgmma_wait<1>();  // the stage before this one has been read
        if (last >= 0) release(last);
        last = s;
        if (++s == kStages) s = 0, parity ^= 1;
      };
      for (int segment = 0; segment < segments.n; ++segment) {
        for (int i = 0; i < segments.boxes / kDepth; ++i) multiply.template operator()<kDepth>();
        if constexpr (kDepth == 2)
          if (segments.boxes % 2 != 0) multiply.template operator()<1>();
        wgmma_wait<0>();
        hold(d);
        if constexpr (Tile::kSegments)
          if (segments.n > 1) add_segment<BN>(d, total, segment == 0);
      }
      release(last);
      if constexpr (Tile::kSegments)
        if (segments.n > 1)
#pragma unroll
          for (int i = 0; i < BN / 2; ++i) d[i] = total[i];
      if constexpr (Tile::CK > 1)
        if (!meet_segments<Tile>(d, base, exchanged)) continue;
      if (Epilogue::kAfterNorm && in.scale.squares && !in.scale.ready) {
        __syncwarp();
        of_rows = {scales[wg_row], scales[wg_row + 8]};
        __syncwarp();
      }
      if constexpr (Epilogue::kWholeHeads)
        epilogue.template store<BN>(d, before, n0, in.n, of_rows, wg_row,
                                    HeadExchange{exchange, exchanged, BM, CM, rank, BN / kGroup});
      else
        store_tile<BN>(epilogue, d, m, n0, rows, in.n, of_rows, before);
    }
  }
  // No CTA leaves while others may still write to its shared memory. (Where segments of K meet, a warp has waited for
  // all that comes.)
  if constexpr (Tile::kSharing > 1) cluster_sync();
#endif
}

template <typename Tile, typename Epilogue>
void launch_wide(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  auto kernel = wide_kernel<Tile, Epilogue>;
  // How many clusters the GPU holds at once: multiprocessors that a cluster cannot fill stay idle.
  static const int most_clusters = [&] {
    allow_shared(kernel, Tile::kShared);
    return resident_clusters(kernel, Tile::kThreads, Tile::kShared, Tile::kCtas);
  }();
  const CUtensorMap a = make_tensor_map(in.a, in.readable_rows(), in.k, a_box_rows<Tile>(in)),
                    w = make_tensor_map(in.w, in.n, in.k, Tile::BN / Tile::CM);
  // CTAs that share K or heads have just one tile to do, whether or not all of them run at once.
  const int n_items = WideGrid<Tile>(in.max_rows, in.n).n_items(),
            n_clusters = Tile::CK > 1 || spreads_heads<Tile, Epilogue>() ? n_items : std::min(most_clusters, n_items);
  CHECK(!in.rows && sums_segments<Tile>(in.n, in.k));
  if constexpr (!Epilogue::kWholeHeads) CHECK(!Epilogue::kWholePieces || in.n % 32 == 0);
  launch_clusters(stream, Tile::kCtas, n_clusters * Tile::kCtas, Tile::kThreads, Tile::kShared, kernel, a, w, in,
                  epilogue);
}

}  // namespace monograph::cuda
