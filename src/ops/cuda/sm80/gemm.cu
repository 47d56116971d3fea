// mma.sync m16n8k16 on tiles that asynchronous copies bring into rings in shared memory. Each CTA makes one tile of the
// result, K in chunks of 64; CTAs past the row count, which is read from the device, leave at once.
#include "ops/cuda/sm80/gemm.h"

#include "base/check.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda::sm80 {
namespace {

/// Who sums the segments of K: there is one; each warp one after the other; a team of warps each, in one CTA.
enum class Segments { kOne, kInTurn, kApart };

/// BM x BN values of the result by kWarpsM x kWarpsN warps, a team. The rings of a CTA stay within the 99 KiB that any
/// GPU since 8.0 has.
template <int BM_, int BN_, int kWarpsM_, int kWarpsN_, int kStages_, Segments kSegments_, int kCtas_ = 1>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kStages = kStages_, kCtas = kCtas_;
  static constexpr Segments kSegments = kSegments_;
  static constexpr int kTeams = kSegments == Segments::kApart ? 4 : 1, kTeamThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kWarpRows = BM / kWarpsM, kWarpColumns = BN / kWarpsN;
  static constexpr int kABytes = BM * 128, kStageBytes = kABytes + BN * 128, kRingBytes = kStages * kStageBytes;
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 16 == 0 && kTeams * kRingBytes <= 99 * 1024);
};

/// A thread's share of the rows of a tile: first.. of a matrix [n_rows, K], chunk after chunk to kRows rows of 128
/// bytes; zeros past the end.
template <int kRows, int kThreads>
struct RowFetcher {
  static constexpr int kStep = kThreads / 8;  // rows that the threads bring at once: a multiple of the swizzle's eight
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  const __nv_bfloat16* from;
  int k, n_left;
  std::uint32_t offset;

  __device__ RowFetcher(const __nv_bfloat16* matrix, int first, int n_rows, int k, int thread)
      : from(matrix + static_cast<std::int64_t>(first + thread / 8) * k + thread % 8 * 8),
        k(k),
        n_left(n_rows - first - thread / 8),
        offset(swizzled(thread / 8, thread % 8)) {}
  __device__ __forceinline__ void fetch(std::uint32_t to, int chunk) const {
#pragma unroll
    for (int row = 0; row < kRows; row += kStep)
      copy16(to + offset + row * 128, from + static_cast<std::int64_t>(row) * k + chunk * 64, row < n_left);
  }
};

/// All warps of a team meet.
template <typename Tile>
__device__ __forceinline__ void team_sync(int team) {
  if constexpr (Tile::kTeams == 1)
    __syncthreads();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "n"(Tile::kTeamThreads) : "memory");
}

/// d of team 0 becomes the sum of all teams' in the segments' order; the others are done.
template <typename Tile, int N>
__device__ __forceinline__ void add_teams(float (&d)[N], float* shared, int team, int thread) {
  wait_copies<0>();
  __syncthreads();  // nobody reads a ring any more
  const int n_teams = blockDim.x / Tile::kTeamThreads;
  for (int i = 0; i < N && team > 0; ++i) shared[((team - 1) * N + i) * Tile::kTeamThreads + thread] = d[i];
  __syncthreads();
  for (int other = 1; other < n_teams && team == 0; ++other)
#pragma unroll
    for (int i = 0; i < N; ++i) d[i] += shared[((other - 1) * N + i) * Tile::kTeamThreads + thread];
}

template <typename Tile, typename Epilogue>
__global__ void __launch_bounds__(Tile::kTeams* Tile::kTeamThreads, Tile::kCtas)
    gemm_kernel(const __grid_constant__ GemmInputs in, const __grid_constant__ Epilogue epilogue) {
  constexpr int kStages = Tile::kStages, kColumns = Tile::kWarpColumns, kTiles = Tile::kWarpRows / 16;
  constexpr bool kApart = Tile::kSegments == Segments::kApart, kInTurn = Tile::kSegments == Segments::kInTurn;
  extern __shared__ __align__(128) unsigned char shared[];
  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  const int m0 = blockIdx.x * Tile::BM, n0 = blockIdx.y * Tile::BN;
  if (m0 >= rows) return;
  const int team = kApart ? threadIdx.x / Tile::kTeamThreads : 0, thread = threadIdx.x % Tile::kTeamThreads;
  const int lane = thread % 32, warp = thread / 32;
  const int warp_m = warp / Tile::kWarpsN * Tile::kWarpRows, warp_n = warp % Tile::kWarpsN * kColumns;
  const int n_segments = k_segments(in.n, in.k), per_segment = in.k / 64 / n_segments;
  const int n_chunks = kApart ? per_segment : in.k / 64, first_chunk = team * n_chunks;

  const std::uint32_t ring = shared_address(shared) + team * Tile::kRingBytes;
  const RowFetcher<Tile::BM, Tile::kTeamThreads> a_rows(in.a, m0, rows, in.k, thread);
  const RowFetcher<Tile::BN, Tile::kTeamThreads> w_rows(in.w, n0, in.n, in.k, thread);
  std::uint32_t filling = ring, reading = ring;
  const auto advance = [&](std::uint32_t& at) {
    at += Tile::kStageBytes;
    if (at == ring + Tile::kRingBytes) at = ring;
  };
  const auto fetch = [&](int chunk) {
    if (chunk < n_chunks) {
      a_rows.fetch(filling, first_chunk + chunk);
      w_rows.fetch(filling + Tile::kABytes, first_chunk + chunk);
    }
    commit_copies();
    advance(filling);
  };
  for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch(chunk);
  __shared__ float scales[Tile::BM];
  if (in.scale.squares) {
    leave_row_scales<4>(in, m0, Tile::BM, rows, scales, threadIdx.x / 32, blockDim.x / 32);
    __syncthreads();
  }

  float d[kTiles][kColumns / 2] = {}, total[kTiles][kInTurn ? kColumns / 2 : 1];
  int left = per_segment, segment = 0;
  for (int chunk = 0; chunk < n_chunks; ++chunk, advance(reading)) {
    wait_copies<kStages - 2>();
    team_sync<Tile>(team);
    fetch(chunk + kStages - 1);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t a[kTiles][4], w[kColumns / 16][4];
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
        load_matrix_x4(a[i], reading + swizzled(warp_m + 16 * i + lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j)
        load_matrix_x4(w[j], reading + Tile::kABytes +
                                 swizzled(warp_n + 16 * j + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          const std::uint32_t b[2] = {w[j / 2][j % 2 * 2], w[j / 2][j % 2 * 2 + 1]};
          mma(reinterpret_cast<float(&)[4]>(d[i][4 * j]), a[i], b);
        }
    }
    if constexpr (kInTurn) {
      if (n_segments == 1 || --left > 0) continue;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) add_segment<kColumns>(d[i], total[i], segment == 0);
      left = per_segment;
      ++segment;
    }
  }
  if constexpr (kApart) {
    static_assert(kTiles == 1);
    add_teams<Tile>(d[0], reinterpret_cast<float*>(shared), team, thread);
    if (team > 0) return;
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    if constexpr (kInTurn)
      if (n_segments > 1)
#pragma unroll
        for (int j = 0; j < kColumns / 2; ++j) d[i][j] = total[i][j];
    const int m = m0 + warp_m + 16 * i + lane / 4, n = n0 + warp_n;
    const RowScales of_rows = in.scale.squares ? RowScales{scales[m - m0], scales[m - m0 + 8]} : RowScales{};
    store_tile<kColumns>(epilogue, d[i], m, n, rows, in.n, of_rows, before_tile<kColumns>(epilogue, m, n, rows, in.n));
  }
}

template <typename Tile, typename Epilogue>
void launch_tiles(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  auto kernel = gemm_kernel<Tile, Epilogue>;
  static const bool ready = (allow_shared(kernel, Tile::kTeams * Tile::kRingBytes), true);
  static_cast<void>(ready);
  const int n_segments = k_segments(in.n, in.k), n_teams = Tile::kSegments == Segments::kApart ? n_segments : 1;
  CHECK(n_teams <= Tile::kTeams && (n_segments == 1 || Tile::kSegments != Segments::kOne));
  const dim3 grid((in.max_rows + Tile::BM - 1) / Tile::BM, (in.n + Tile::BN - 1) / Tile::BN);
  launch(stream, grid, n_teams * Tile::kTeamThreads, n_teams * Tile::kRingBytes, kernel, in, epilogue);
}

/// Few rows: as many CTAs and teams as there can be, for latency. Many: large tiles, once they fill the chip.
template <typename Epilogue>
void launch_gemm(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  const bool segments = k_segments(in.n, in.k) > 1;
  // What the next norm is left of comes from whole pieces of 32 columns then.
  bool by_32 = false;
  if constexpr (std::is_same_v<Epilogue, AddResidual>) by_32 = epilogue.next.columns == 32;
  const int n_large = (in.max_rows + 127) / 128 * ((in.n + 127) / 128);
  if (in.max_rows <= 16 && !segments)
    launch_tiles<Tile<16, 32, 1, 2, 12, Segments::kOne>>(stream, in, epilogue);
  else if (in.max_rows <= 16)
    launch_tiles<Tile<16, 32, 1, 2, 4, Segments::kApart>>(stream, in, epilogue);
  else if (in.max_rows <= 128 && segments && !by_32)
    launch_tiles<Tile<32, 32, 2, 2, 3, Segments::kApart>>(stream, in, epilogue);
  else if (segments || n_large < kMultiprocessors)
    launch_tiles<Tile<64, 64, 2, 2, 4, Segments::kInTurn>>(stream, in, epilogue);
  else
    launch_tiles<Tile<128, 128, 2, 4, 3, Segments::kOne, 2>>(stream, in, epilogue);
}

}  // namespace

void gemm(LaunchStream stream, const GemmInputs& in, const AddResidual& epilogue) { launch_gemm(stream, in, epilogue); }
void gemm(LaunchStream stream, const GemmInputs& in, const GatedSilu& epilogue) { launch_gemm(stream, in, epilogue); }
void gemm(LaunchStream stream, const GemmInputs& in, const StoreFloat& epilogue) { launch_gemm(stream, in, epilogue); }

}  // namespace monograph::cuda::sm80
