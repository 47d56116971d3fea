// The product for at most 16 rows: a latency problem. A warp owns one segment of K of 8 or 16 weight rows and streams
// it through its own ring of bulk copies, which starts before the wait for the predecessor; where the ring holds the
// warp's whole share, nothing of the weights is left to wait for. The rows of a lie in shared memory, whole or
// panel after panel.
#pragma once
#include <algorithm>

#include "ops/cuda/gemm_epilogues.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/row_norm.cuh"
#include "ops/cuda/tensor_map.cuh"
#include "ops/cuda/wgmma.cuh"

namespace monograph::cuda {

/// A CTA's dynamic shared memory at most; an epilogue may have some of its own.
inline constexpr int kMostShared = 220 * 1024;

/// What may be chosen without a trace in the result.
struct NarrowTuning {
  int max_warps = 8;
  int chunk = 512;                   ///< Values of K that one copy brings at most, a multiple of 64.
  int shared_bytes = 110 * 1024;     ///< Two CTAs of this size share an SM: the next kernel's weights come early ...
  int streaming_bytes = 200 * 1024;  ///< ... if they fit in. Else there is a long stream, which wants to be wide.
  int teams = 0;                     ///< Units of a CTA, which has just one round; 0: as many as make all end together.
};

struct NarrowPlan {
  int segments, segment_k, chunk, n_chunks;  // n_chunks: of a segment
  int n_units, n_rounds, teams, n_ctas;      // a unit: 8 * GROUPS weight rows; a team: the warps of one unit
  int n_panels, panel_k, a_pitch, a_bytes;   // rows too long to stay come in panels: panel_k values of every segment
  int n_stages, stage_bytes;
  int a_offset, partial_offset, barrier_offset, shared_bytes;
};

template <int GROUPS>
NarrowPlan narrow_plan(const GemmInputs& in, int segments, const NarrowTuning& tuning) {
  constexpr int kUnit = 8 * GROUPS;
  NarrowPlan plan{};
  plan.segments = segments;
  plan.segment_k = in.k / segments;
  plan.n_units = (in.n + kUnit - 1) / kUnit;
  // As few rounds as the warps allow, and then only as many warps and CTAs as these rounds need: all end together.
  const int most_units = kMultiprocessors * std::max(1, tuning.max_warps / segments);
  plan.n_rounds = (plan.n_units + most_units - 1) / most_units;
  plan.teams = (plan.n_units + kMultiprocessors * plan.n_rounds - 1) / (kMultiprocessors * plan.n_rounds);
  if (tuning.teams > 0) plan.n_rounds = 1, plan.teams = tuning.teams;
  plan.n_ctas = (plan.n_units + plan.teams * plan.n_rounds - 1) / (plan.teams * plan.n_rounds);
  const int n_warps = plan.teams * segments;
  const auto divide = [&](int most) {
    const int n_blocks = plan.segment_k / 64;
    int blocks = std::min(most / 64, n_blocks);
    while (n_blocks % blocks != 0) --blocks;
    plan.chunk = blocks * 64;
    plan.n_chunks = n_blocks / blocks;
    plan.stage_bytes = kUnit * plan.chunk * 2;
    plan.n_panels = 1;
    const auto panel_bytes = [&] { return in.max_rows * narrow_pitch(in.k / plan.n_panels); };
    if (panel_bytes() > kNarrowBytes) {
      plan.n_panels = 2;
      while (plan.n_panels < plan.n_chunks && (plan.n_chunks % plan.n_panels != 0 || panel_bytes() > 32 * 1024))
        ++plan.n_panels;
    }
    plan.panel_k = plan.segment_k / plan.n_panels;
    plan.a_pitch = narrow_pitch(in.k / plan.n_panels);
    plan.a_bytes = in.max_rows * plan.a_pitch;
  };
  const int partial_bytes = segments > 1 ? 2 * n_warps * GROUPS * 512 : 0;
  const auto stages_within = [&](int bytes) {
    const int other_bytes = plan.a_bytes * std::min(plan.n_panels, 2) + partial_bytes + n_warps * 16 * 8;
    return (bytes - other_bytes - 1024) / (n_warps * plan.stage_bytes);
  };
  divide(tuning.chunk);
  plan.n_stages = stages_within(tuning.shared_bytes);
  if (plan.n_stages < plan.n_rounds * plan.n_chunks) plan.n_stages = stages_within(tuning.streaming_bytes);
  if (plan.n_stages < std::min(plan.n_rounds * plan.n_chunks, 3)) {
    divide(std::min(tuning.chunk, 256));
    plan.n_stages = stages_within(kMostShared);
  }
  plan.n_stages = std::min(std::clamp(plan.n_stages, 2, 16), plan.n_rounds * plan.n_chunks);
  plan.a_offset = n_warps * plan.n_stages * plan.stage_bytes;
  plan.partial_offset = plan.a_offset + plan.a_bytes * std::min(plan.n_panels, 2);
  plan.barrier_offset = plan.partial_offset + partial_bytes;
  plan.shared_bytes = plan.barrier_offset + n_warps * plan.n_stages * 8 + 1024;  // and what alignment takes
  return plan;
}

/// One warp's way through its share of the weights: the next stage of its ring to fill, and with what. A stage holds
/// blocks of 64 values of K, each as 8 * GROUPS rows of 128 bytes, swizzled.
template <int GROUPS>
struct WeightRing {
  const CUtensorMap* map;
  const NarrowPlan& plan;
  std::uint32_t ring, full;
  int unit, stride, block0;
  int chunk = 0, stage = 0;

  __device__ __forceinline__ void fetch() {
    if (unit >= plan.n_units) return;
    if (threadIdx.x % 32 == 0) {
      barrier_expect(full + stage * 8, plan.stage_bytes);
      copy_box(ring + stage * plan.stage_bytes, map, 0, unit * 8 * GROUPS, block0 + chunk * (plan.chunk / 64),
               full + stage * 8);
    }
    if (++stage == plan.n_stages) stage = 0;
    if (++chunk == plan.n_chunks) chunk = 0, unit += stride;
  }
};

/// The operands of 64 values of K in a warp's registers: four steps of k16.
template <int GROUPS>
struct NarrowBlock {
  std::uint32_t w[2][GROUPS][4], a[4][4];

  __device__ __forceinline__ void load(std::uint32_t at_w, std::uint32_t at_a) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      load_matrix_x4(a[2 * half], at_a + half * 64);
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) load_matrix_x4(w[half][g], (at_w ^ (half * 64)) + g * 1024);
      load_matrix_x4(a[2 * half + 1], at_a + half * 64 + 32);
    }
  }
  __device__ __forceinline__ void multiply(float (&c)[GROUPS][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) {
        const std::uint32_t b[2] = {w[step / 2][g][step % 2 * 2], w[step / 2][g][step % 2 * 2 + 1]};
        mma(c[g], a[step], b);
      }
  }
};

/// The rows of a in shared memory: one panel after another, the next one on its way while one is read.
template <bool kGather>
struct RowPanels {
  const GemmInputs& in;
  const NarrowPlan& plan;
  int n_rows;
  std::uint32_t at;
  int k0, thread, n_threads;  // this segment's first column; its place among the warps of the segment
  int loading = 0, reading = -1;

  /// This segment's columns of the next panel.
  __device__ __forceinline__ void load() {
    const int n_pieces = plan.panel_k / 8, panel = loading % plan.n_panels;
    const std::uint32_t to = at + (loading & 1) * plan.a_bytes + k0 / plan.n_panels * 2;
    int m = 0, piece = thread;
    while (true) {
      while (piece >= n_pieces) piece -= n_pieces, ++m;
      if (m >= n_rows) break;
      const int row = kGather && in.rows ? in.rows[m] : m;
      if (!kGather || row >= 0)
        copy16(to + m * plan.a_pitch + piece * 16,
               in.a + static_cast<std::int64_t>(row) * in.k + k0 + panel * plan.panel_k + piece * 8, true);
      piece += n_threads;
    }
    commit_copies();
    ++loading;
  }
  /// Waits for the panel last asked for and asks for another if there is more to come; where the one to read lies.
  __device__ __forceinline__ std::uint32_t next() {
    wait_copies<0>();
    if (plan.teams > 1 || plan.n_panels > 1 || in.scale.squares)
      __syncthreads();
    else
      __syncwarp();
    ++reading;
    if (plan.n_panels > 1 && loading < plan.n_rounds * plan.n_panels) load();
    return at + (reading & 1) * plan.a_bytes;
  }
};

/// What an epilogue reads of a warp's rows m and m + 8 and columns n, n + 8, ... besides the sums.
template <int GROUPS, typename Epilogue>
struct NarrowBefore {
  decltype(read_pair(std::declval<const Epilogue&>(), 0, 0)) pairs[GROUPS][2];
  __device__ __forceinline__ NarrowBefore(const Epilogue& epilogue, int m, int n, int rows, int n_columns) {
#pragma unroll
    for (int g = 0; g < GROUPS; ++g)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (m + 8 * half < rows && n + 8 * g < n_columns) pairs[g][half] = read_pair(epilogue, m + 8 * half, n + 8 * g);
  }
};

/// Units of 8 weight rows in a group of a head.
inline constexpr int kGroupUnits = kGroup / 8;

/// What ends the qkv product inside its kernel: four teams have a group of a head, whose sums meet in one warp; CTAs of
/// a cluster share a head.
template <typename Epilogue>
struct NarrowHeads {
  float4 parts[2][kGroupUnits][32];  // of each group in the CTA, its units' accumulators
  float sums[kMaxGroups][kNarrowRows];
  std::uint64_t arrived;

  __device__ __forceinline__ void init() {
    if (threadIdx.x == 0) {
      barrier_init(shared_address(&arrived), 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      barrier_expect(shared_address(&arrived), HeadExchange::bytes(Epilogue::kGroups, kNarrowRows));
    }
    cluster_arrive();
  }
  /// By one warp of every team, whose unit is `unit`.
  __device__ __forceinline__ void finish(const Epilogue& epilogue, const typename Epilogue::Rows& at, float (&c)[4],
                                         int team, int teams, int unit, const RowScales& scales) {
    const int lane = threadIdx.x % 32, in_cta = team / kGroupUnits;
    parts[in_cta][team % kGroupUnits][lane] = make_float4(c[0], c[1], c[2], c[3]);
    asm volatile("bar.sync %0, %1;" ::"r"(14 + in_cta), "r"(32 * kGroupUnits) : "memory");
    if (team % kGroupUnits != 0) return;
    float d[4 * kGroupUnits];
#pragma unroll
    for (int j = 0; j < kGroupUnits; ++j) {
      const float4 part = parts[in_cta][j][lane];
      d[4 * j] = part.x, d[4 * j + 1] = part.y, d[4 * j + 2] = part.z, d[4 * j + 3] = part.w;
    }
    scales.template apply<4 * kGroupUnits>(d);
    const int group = unit / kGroupUnits, in_head = group % Epilogue::kGroups;
    const HeadExchange peers{
        shared_address(sums), shared_address(&arrived), kNarrowRows, 1, static_cast<int>(cluster_rank()),
        teams / kGroupUnits};
    epilogue.template finish<1>(d, group / Epilogue::kGroups, in_head, at.row,
                                [&](const float(&own)[2][1], float(&all)[2]) {
                                  if constexpr (Epilogue::kGroups == 1) {
                                    all[0] = own[0][0], all[1] = own[1][0];
                                  } else {
                                    cluster_wait();
                                    peers.run(own, lane / 4, in_head, Epilogue::kGroups, all);
                                  }
                                });
  }
};

template <int GROUPS, typename Epilogue>
__global__ void __launch_bounds__(256)
    narrow_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ GemmInputs in,
                  const __grid_constant__ NarrowPlan plan, Epilogue epilogue) {
#if __CUDA_ARCH__ >= 900
  let_successor_start();
  constexpr int kUnit = 8 * GROUPS;
  constexpr bool kAfterNorm = Epilogue::kAfterNorm;
  extern __shared__ __align__(128) unsigned char raw[];
  const std::uint32_t unaligned = shared_address(raw), base = (unaligned + 1023) & ~1023u;
  unsigned char* const shared = raw + (base - unaligned);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
  const int team = warp / plan.segments, segment = warp - team * plan.segments;
  const std::uint32_t ring = base + warp * plan.n_stages * plan.stage_bytes,
                      full = base + plan.barrier_offset + warp * plan.n_stages * 8;
  if (lane == 0) {
#pragma unroll 1
    for (int s = 0; s < plan.n_stages; ++s) barrier_init(full + s * 8, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  constexpr bool kHeads = Epilogue::kWholeHeads;
  __shared__ std::conditional_t<kHeads, NarrowHeads<Epilogue>, Nothing> heads;
  if constexpr (kHeads) heads.init();
  __syncwarp();
  const int k0 = segment * plan.segment_k, stride = gridDim.x * plan.teams;
  int unit = blockIdx.x * plan.teams + team;
  WeightRing<GROUPS> weights{&map, plan, ring, full, unit, stride, k0 / 64};
#pragma unroll 1
  for (int s = 0; s < plan.n_stages; ++s) weights.fetch();

  wait_for_predecessor();
  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  // What one or two rows wait for is best asked for before the count is known. Rows past it hold something finite or
  // not; nothing of them is stored.
  const int n_fetched = in.max_rows <= 2 ? in.max_rows : rows;
  constexpr bool kGather = requires { Epilogue::kGathers; };
  RowPanels<kGather> panels{in, plan, n_fetched, base + plan.a_offset, k0, team * 32 + lane, plan.teams * 32};
  panels.load();
  // Read after panels.next() has let all warps meet.
  __shared__ float scales[kNarrowRows];
  if (kAfterNorm && in.scale.squares) leave_row_scales<2>(in, 0, kNarrowRows, rows, scales, warp, n_warps);

  const std::uint32_t lane_w = (lane % 8) * 128 + (((lane / 8) ^ (lane % 8)) << 4);
  const std::uint32_t lane_a =
      k0 / plan.n_panels * 2 + min(lane % 16, in.max_rows - 1) * plan.a_pitch + (lane / 16) * 16;
  const int chunk_blocks = plan.chunk / 64, panel_blocks = plan.panel_k / 64;
  std::uint32_t at_rows = base + plan.a_offset;
  int stage = 0, parity = 0;
  for (int round = 0; round < plan.n_rounds; ++round, unit += stride) {
    const int m = lane / 4, n = unit * kUnit + (lane % 4) * 2;
    const auto before = [&] {
      if constexpr (kHeads)
        return epilogue.rows_at(m, segment == 0 && team % kGroupUnits == 0 ? rows : 0);
      else
        return NarrowBefore<GROUPS, Epilogue>(epilogue, m, n, segment == 0 ? rows : 0, in.n);
    }();
    float c[GROUPS][4] = {};
    for (int panel = 0; panel < plan.n_panels; ++panel) {
      if (plan.n_panels > 1 || round == 0) at_rows = panels.next();
      if (unit >= plan.n_units) continue;
      // Two blocks in registers: one is multiplied while the other is on its way out of shared memory.
      std::uint32_t at_w = 0, at_a = at_rows + lane_a;
      int loaded = 0, used = 0;
      const auto load = [&](NarrowBlock<GROUPS>& to) {
        if (loaded == 0) {
          barrier_wait(full + stage * 8, parity);
          at_w = ring + stage * plan.stage_bytes + lane_w;
          if (++stage == plan.n_stages) stage = 0, parity ^= 1;
        }
        to.load(at_w, at_a);
        at_w += 1024 * GROUPS, at_a += 128;
        if (++loaded == chunk_blocks) loaded = 0;
      };
      const auto multiply = [&](const NarrowBlock<GROUPS>& block) {
        block.multiply(c);
        if (++used < chunk_blocks) return;
        used = 0;
        __syncwarp();
        weights.fetch();
      };
      NarrowBlock<GROUPS> even, odd;
      load(even);
      for (int block = 0; block < panel_blocks; block += 2) {
        if (block + 1 < panel_blocks) load(odd);
        multiply(even);
        if (block + 1 >= panel_blocks) break;
        if (block + 2 < panel_blocks) load(even);
        multiply(odd);
      }
    }
    if (unit >= plan.n_units) continue;
    if (plan.segments > 1) {
      // Partial sums meet in shared memory, in a place of this round's parity, and are added in the segments' order.
      auto* partial =
          reinterpret_cast<float4*>(shared + plan.partial_offset) + ((round & 1) * n_warps + warp) * GROUPS * 32 + lane;
      if (segment > 0) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) partial[g * 32] = make_float4(c[g][0], c[g][1], c[g][2], c[g][3]);
      }
      asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "r"(32 * plan.segments) : "memory");
      if (segment > 0) continue;
      for (int s = 1; s < plan.segments; ++s)
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
          const float4 more = partial[(s * GROUPS + g) * 32];
          c[g][0] += more.x, c[g][1] += more.y, c[g][2] += more.z, c[g][3] += more.w;
        }
    }
    RowScales of_rows;
    if (kAfterNorm && in.scale.squares) of_rows = {scales[m], scales[m + 8]};
    if constexpr (kHeads) {
      heads.finish(epilogue, before, c[0], team, plan.teams, unit, of_rows);
    } else {
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) {
        of_rows.apply<4>(c[g]);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_pair(epilogue, m + 8 * half, n + 8 * g, c[g][2 * half], c[g][2 * half + 1], before.pairs[g][half],
                     m + 8 * half < rows && n + 8 * g < in.n);
      }
    }
  }
  if constexpr (requires { epilogue.finish(rows); }) epilogue.finish(rows);
#endif
}

template <int GROUPS, typename Epilogue>
void launch_narrow(cudaStream_t stream, const GemmInputs& in, int segments, const NarrowTuning& tuning,
                   const Epilogue& epilogue) {
  auto kernel = narrow_kernel<GROUPS, Epilogue>;
  static const bool ready = (allow_shared(kernel, kMostShared), true);
  static_cast<void>(ready);
  constexpr bool kGathers = requires { Epilogue::kGathers; };
  CHECK(kGathers || !in.rows);
  static_assert(GROUPS == 1 || !Epilogue::kWholeHeads);
  const NarrowPlan plan = narrow_plan<GROUPS>(in, segments, tuning);
  const CUtensorMap map = make_block_map(in.w, in.n, in.k, 8 * GROUPS, plan.chunk / 64);
  int cluster = 1;
  if constexpr (Epilogue::kWholeHeads) cluster = std::max(1, Epilogue::kGroups * kGroupUnits / plan.teams);
  launch_clusters(stream, cluster, plan.n_ctas, 32 * plan.teams * segments, plan.shared_bytes, kernel, map, in, plan,
                  epilogue);
}

/// How many units a CTA of a narrow kernel has to hold for its qkv product to end in it, in one round: those of one or
/// two groups of heads of kGroups; 0: it cannot.
template <int kGroups>
int narrow_head_teams(const GemmInputs& in) {
  const int segments = k_segments(in.n, in.k);
  for (int groups : {1, 2})
    if ((kGroups % groups == 0 || kGroups == 1) && in.n % (groups * kGroup) == 0 &&
        in.n / (groups * kGroup) <= kMultiprocessors && groups * kGroupUnits * segments <= NarrowTuning{}.max_warps)
      return groups * kGroupUnits;
  return 0;
}

}  // namespace monograph::cuda
