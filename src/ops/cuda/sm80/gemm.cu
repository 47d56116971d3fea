// mma.sync m16n8k16 on tiles that asynchronous copies bring into a ring in shared memory. Each CTA makes one tile of
// the result, K in chunks of 64; CTAs past the row count, which is read from the device, leave at once.
#include "ops/cuda/sm80/gemm.h"

#include "ops/cuda/launch.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace monograph::cuda::sm80 {
namespace {

/// BM x BN values of the result by kWarpsM x kWarpsN warps. Rings stay within the 99 KiB that any GPU since 8.0 has.
template <int BM_, int BN_, int kWarpsM_, int kWarpsN_, int kStages_>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kStages = kStages_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN, kWarpRows = BM / kWarpsM, kWarpColumns = BN / kWarpsN;
  static constexpr int kABytes = BM * 128, kStageBytes = kABytes + BN * 128, kShared = kStages * kStageBytes;
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 16 == 0 && kShared <= 99 * 1024);
};
using FewRows = Tile<16, 32, 1, 2, 12>;
using SmallTile = Tile<64, 64, 2, 2, 4>;
using LargeTile = Tile<128, 128, 2, 4, 3>;

/// Rows first.. of a matrix [n_rows, K], columns of one chunk, to `kRows` rows of 128 bytes; zeros past the end.
template <int kRows, int kThreads>
__device__ __forceinline__ void fetch_rows(std::uint32_t to, const __nv_bfloat16* matrix, int first, int n_rows, int k,
                                           int chunk) {
#pragma unroll
  for (int i = threadIdx.x; i < kRows * 8; i += kThreads) {
    const int row = i / 8, piece = i % 8;
    const bool valid = first + row < n_rows;
    copy16(to + swizzled(row, piece),
           matrix + static_cast<std::int64_t>(valid ? first + row : 0) * k + chunk * 64 + piece * 8, valid);
  }
}

template <typename Tile, typename Epilogue>
__global__ void __launch_bounds__(Tile::kThreads)
    gemm_kernel(const __grid_constant__ GemmInputs in, const __grid_constant__ Epilogue epilogue) {
  constexpr int kStages = Tile::kStages, kColumns = Tile::kWarpColumns, kTiles = Tile::kWarpRows / 16;
  extern __shared__ __align__(128) unsigned char shared[];
  const std::uint32_t base = shared_address(shared);
  const int rows = in.n_rows ? min(*in.n_rows, in.max_rows) : in.max_rows;
  const int m0 = blockIdx.x * Tile::BM, n0 = blockIdx.y * Tile::BN;
  if (m0 >= rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_chunks = in.k / 64;
  const int warp_m = warp / Tile::kWarpsN * Tile::kWarpRows, warp_n = warp % Tile::kWarpsN * kColumns;
  const int n_segments = k_segments(in.n, in.k), per_segment = n_chunks / n_segments;

  const auto fetch = [&](int chunk) {
    const std::uint32_t to = base + chunk % kStages * Tile::kStageBytes;
    if (chunk < n_chunks) {
      fetch_rows<Tile::BM, Tile::kThreads>(to, in.a, m0, rows, in.k, chunk);
      fetch_rows<Tile::BN, Tile::kThreads>(to + Tile::kABytes, in.w, n0, in.n, in.k, chunk);
    }
    commit_copies();
  };
  for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch(chunk);

  float d[kTiles][kColumns / 2] = {}, total[kTiles][kColumns / 2];
  int left = per_segment, segment = 0;
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    wait_copies<kStages - 2>();
    __syncthreads();
    fetch(chunk + kStages - 1);
    const std::uint32_t at_a = base + chunk % kStages * Tile::kStageBytes, at_w = at_a + Tile::kABytes;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t a[kTiles][4], w[kColumns / 16][4];
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
        load_matrix_x4(a[i], at_a + swizzled(warp_m + 16 * i + lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j)
        load_matrix_x4(w[j], at_w + swizzled(warp_n + 16 * j + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          const std::uint32_t b[2] = {w[j / 2][j % 2 * 2], w[j / 2][j % 2 * 2 + 1]};
          mma(reinterpret_cast<float(&)[4]>(d[i][4 * j]), a[i], b);
        }
    }
    if (n_segments == 1 || --left > 0) continue;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) add_segment<kColumns>(d[i], total[i], segment == 0);
    left = per_segment;
    ++segment;
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    if (n_segments > 1)
#pragma unroll
      for (int j = 0; j < kColumns / 2; ++j) d[i][j] = total[i][j];
    store_pieces<kColumns>(epilogue, d[i], m0 + warp_m + 16 * i + lane / 4, n0 + warp_n, rows, in.n);
  }
}

template <typename Tile, typename Epilogue>
void launch_tiles(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  auto kernel = gemm_kernel<Tile, Epilogue>;
  static const bool ready = (allow_shared(kernel, Tile::kShared), true);
  static_cast<void>(ready);
  const dim3 grid((in.max_rows + Tile::BM - 1) / Tile::BM, (in.n + Tile::BN - 1) / Tile::BN);
  launch(stream, grid, Tile::kThreads, Tile::kShared, kernel, in, epilogue);
}

template <typename Epilogue>
void launch_gemm(LaunchStream stream, const GemmInputs& in, const Epilogue& epilogue) {
  const int n_large = (in.max_rows + LargeTile::BM - 1) / LargeTile::BM * ((in.n + LargeTile::BN - 1) / LargeTile::BN);
  if (in.max_rows <= FewRows::BM)
    launch_tiles<FewRows>(stream, in, epilogue);
  else if (n_large < kMultiprocessors)
    launch_tiles<SmallTile>(stream, in, epilogue);
  else
    launch_tiles<LargeTile>(stream, in, epilogue);
}

}  // namespace

void gemm(LaunchStream stream, const GemmInputs& in, const AddResidual& epilogue) { launch_gemm(stream, in, epilogue); }
void gemm(LaunchStream stream, const GemmInputs& in, const GatedSilu& epilogue) { launch_gemm(stream, in, epilogue); }
void gemm(LaunchStream stream, const GemmInputs& in, const StoreFloat& epilogue) { launch_gemm(stream, in, epilogue); }

}  // namespace monograph::cuda::sm80
