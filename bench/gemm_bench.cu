// The wide product on its own: every tile shape against a plain kernel that sums in the same order, bit for bit, and
// the time of each in a graph of products over different weights, beside the one the rule would choose.
//   gemm_bench [check|time]
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/cuda/gemm.cuh"

namespace monograph::cuda {
namespace {

__global__ void fill(__nv_bfloat16* to, std::int64_t n, unsigned seed, float scale) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    unsigned long long x = (static_cast<unsigned long long>(seed) << 40) + i + 1;
    float sum = 0.0f;  // nearly normal
    for (int k = 0; k < 4; ++k) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      sum += static_cast<float>(static_cast<unsigned>(x >> 20)) * 2.3283064e-10f - 0.5f;
    }
    to[i] = __float2bfloat16_rn(sum * 1.7f * scale);
  }
}

// One warp a 16 x 8 tile, k16 steps in order, segments apart.
__global__ void reference(GemmInputs in, float* out) {
  const int m0 = blockIdx.x * 16, n0 = blockIdx.y * 8, lane = threadIdx.x, g = lane / 4, c = lane % 4;
  const int n_segments = k_segments(in.n, in.k), length = in.k / n_segments;
  float total[4] = {};
  const auto pair = [&](const __nv_bfloat16* p, int row, int rows, int k) {
    return row < rows ? *reinterpret_cast<const std::uint32_t*>(p + static_cast<std::int64_t>(row) * in.k + k) : 0u;
  };
  for (int s = 0; s < n_segments; ++s) {
    float d[4] = {};
    for (int k = s * length; k < (s + 1) * length; k += 16) {
      const std::uint32_t a[4] = {
          pair(in.a, m0 + g, in.max_rows, k + 2 * c), pair(in.a, m0 + g + 8, in.max_rows, k + 2 * c),
          pair(in.a, m0 + g, in.max_rows, k + 2 * c + 8), pair(in.a, m0 + g + 8, in.max_rows, k + 2 * c + 8)};
      const std::uint32_t b[2] = {pair(in.w, n0 + g, in.n, k + 2 * c), pair(in.w, n0 + g, in.n, k + 2 * c + 8)};
      mma(d, a, b);
    }
    for (int i = 0; i < 4; ++i) total[i] = s == 0 ? d[i] : total[i] + d[i];
  }
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + g + 8 * (i / 2), n = n0 + 2 * c + i % 2;
    if (m < in.max_rows && n < in.n) out[static_cast<std::int64_t>(m) * in.n + n] = total[i];
  }
}
template <typename Epilogue>
__global__ void apply(const float* from, int rows, int n, Epilogue epilogue) {
  for (int first = blockIdx.x * blockDim.x; first < rows * n / 2; first += gridDim.x * blockDim.x) {
    const int i = first + threadIdx.x, m = i / (n / 2), c = i % (n / 2) * 2;
    const bool valid = i < rows * n / 2;
    const auto before = valid ? read_pair(epilogue, m, c) : decltype(read_pair(epilogue, m, c)){};
    store_pair(epilogue, m, c, valid ? from[2 * i] : 0.0f, valid ? from[2 * i + 1] : 0.0f, before, valid);
  }
}
__global__ void compare(const unsigned short* a, const unsigned short* b, std::int64_t n, int* different) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    if (a[i] != b[i]) atomicAdd(different, 1);
}

template <typename T>
T* allocate(std::int64_t n) {
  void* p = nullptr;
  CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
  CUDA_CHECK(cudaMemset(p, 0xff, n * sizeof(T)));
  return static_cast<T*>(p);
}

struct Rig {
  cudaStream_t stream{};
  __nv_bfloat16 *a, *w, *x, *y;
  float *wanted, *got;
  std::int32_t *n_rows, *locs;
  int* different;
  std::int64_t w_count;
  Rig() : w_count(1200ll << 20) {
    CUDA_CHECK(cudaStreamCreate(&stream));
    a = allocate<__nv_bfloat16>(8192ll * 12288);
    w = allocate<__nv_bfloat16>(w_count);
    x = allocate<__nv_bfloat16>(8192ll * 24576);
    y = allocate<__nv_bfloat16>(8192ll * 24576);
    wanted = allocate<float>(1100ll * 24576);
    got = allocate<float>(1100ll * 24576);
    n_rows = allocate<std::int32_t>(1);
    different = allocate<int>(1);
    locs = allocate<std::int32_t>(8192);
    std::vector<std::int32_t> ascending(8192);
    for (int i = 0; i < 8192; ++i) ascending[i] = 64 + i;
    CUDA_CHECK(cudaMemcpy(locs, ascending.data(), 4 * 8192, cudaMemcpyHostToDevice));
    fill<<<1024, 256, 0, stream>>>(a, 8192ll * 12288, 1, 1.0f);
    fill<<<1024, 256, 0, stream>>>(w, w_count, 2, 0.03f);
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  int n_wrong = 0;
  int differences(const void* p, const void* q, std::int64_t bytes) {
    CUDA_CHECK(cudaMemsetAsync(different, 0, 4, stream));
    compare<<<512, 256, 0, stream>>>(static_cast<const unsigned short*>(p), static_cast<const unsigned short*>(q),
                                     bytes / 2, different);
    int n = -1;
    CUDA_CHECK(cudaMemcpyAsync(&n, different, 4, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    return n;
  }
};

template <typename Tile>
struct Named {
  static std::string name() {
    return std::to_string(Tile::BM) + "x" + std::to_string(Tile::BN) + "c" + std::to_string(Tile::CM) +
           std::to_string(Tile::CN) + (Tile::CK > 1 ? "k" + std::to_string(Tile::CK) : "") + (Tile::kDeep ? "d" : "");
  }
};

template <typename Tile>
void check(Rig& rig, const GemmInputs& in, int rows) {
  if (!sums_segments<Tile>(in.n, in.k)) return;
  const auto report = [&](const char* what, int n) {
    rig.n_wrong += n != 0;
    if (n)
      std::printf("DIFFERENT %s %s m %d of %d n %d k %d: %d\n", what, Named<Tile>::name().c_str(), rows, in.max_rows,
                  in.n, in.k, n);
  };
  const std::int64_t count = static_cast<std::int64_t>(rows) * in.n;
  CUDA_CHECK(cudaMemsetAsync(rig.got, 0xff, 4 * count, rig.stream));
  launch_wide<Tile>(rig.stream, in, StoreFloat{rig.got, in.n, in.n});
  report("float", rig.differences(rig.got, rig.wanted, 4 * count));
  if (in.n % 32 != 0) return;
  for (auto* to : {rig.x, rig.y}) fill<<<256, 256, 0, rig.stream>>>(to, count, 3, 1.0f);
  apply<<<256, 256, 0, rig.stream>>>(rig.wanted, rows, in.n, AddResidual{rig.x, in.n});
  launch_wide<Tile>(rig.stream, in, AddResidual{rig.y, in.n});
  report("residual", rig.differences(rig.x, rig.y, 2 * count));
  apply<<<256, 256, 0, rig.stream>>>(rig.wanted, rows, in.n, GatedSilu{rig.x, in.n / 2});
  launch_wide<Tile>(rig.stream, in, GatedSilu{rig.y, in.n / 2});
  report("gated", rig.differences(rig.x, rig.y, count));
}

template <typename... Tiles>
void check_all(Rig& rig) {
  for (const auto [n, k] : {std::pair{1024, 2048},
                            {1024, 3072},
                            {6144, 1024},
                            {576, 576},
                            {960, 576},
                            {200, 128},
                            {4096, 1536},
                            {1024, 1536},
                            {2048, 1152},
                            {512, 1664},
                            {1024, 8192}})
    for (const auto [rows, most] : {std::pair{1, 32},
                                    {17, 17},
                                    {64, 64},
                                    {65, 128},
                                    {127, 256},
                                    {300, 512},
                                    {512, 512},
                                    {130, 1024},
                                    {1000, 1024}}) {
      CUDA_CHECK(cudaMemcpy(rig.n_rows, &rows, 4, cudaMemcpyHostToDevice));
      const GemmInputs in{rig.a, rig.w, n, k, rig.n_rows, most};
      GemmInputs all = in;
      all.max_rows = rows;
      reference<<<dim3((rows + 15) / 16, (n + 7) / 8), 32, 0, rig.stream>>>(all, rig.wanted);
      (check<Tiles>(rig, in, rows), ...);
      CUDA_CHECK(cudaGetLastError());
    }
  std::printf("checked, %d of the comparisons different\n", rig.n_wrong);
}

/// Microseconds of one product in a graph of them over different weights.
template <typename Work>
double time_us(Rig& rig, int n_products, const Work& work) {
  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  CUDA_CHECK(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < n_products; ++i) work(i);
  CUDA_CHECK(cudaStreamEndCapture(rig.stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t start{}, stop{};
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  std::vector<float> ms;
  for (int i = 0; i < 7; ++i) {
    CUDA_CHECK(cudaEventRecord(start, rig.stream));
    CUDA_CHECK(cudaGraphLaunch(exec, rig.stream));
    CUDA_CHECK(cudaEventRecord(stop, rig.stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float t = 0;
    CUDA_CHECK(cudaEventElapsedTime(&t, start, stop));
    ms.push_back(t);
  }
  std::sort(ms.begin(), ms.end());
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(graph));
  return ms[3] * 1000 / n_products;
}

template <typename Epilogue, typename... Tiles>
void time_all(Rig& rig, const char* what, int n, int k, const Epilogue& epilogue) {
  for (int m : {32, 64, 128, 256, 512, 1024, 2048}) {
    const std::int64_t size = static_cast<std::int64_t>(n) * k;
    const int copies = static_cast<int>(std::min<std::int64_t>(rig.w_count / size, 64));
    const int n_products = m >= 2048 ? 12 : 56;
    const double floor = std::max(2.0 * size / 4.55e6, 2.0 * m * size / 790e6);
    std::printf("%-8s n %5d k %5d m %4d floor %7.2f", what, n, k, m, floor);
    double least = 1e30, chosen = 0;
    std::string best, choice;
    const auto each = [&]<typename Tile>() {
      if (!sums_segments<Tile>(n, k)) return;
      if constexpr (Epilogue::kWholeHeads) {
        const int d = epilogue.head_dim;
        if (Tile::BN % d != 0 && !(d % Tile::BN == 0 && Tile::CN % (d / Tile::BN) == 0 &&
                                   WideGrid<Tile>(m, n).n_items() * Tile::kCtas <= 120))
          return;
      }
      const double us = time_us(rig, n_products, [&](int i) {
        launch_wide<Tile>(rig.stream, GemmInputs{rig.a, rig.w + i % copies * size, n, k, nullptr, m}, epilogue);
      });
      const double model = wide_cycles<Tile>(m, n, k, Epilogue::kWholeHeads);
      if (us < least) least = us, best = Named<Tile>::name();
      if (choice.empty() || model < chosen)
        chosen = model, choice = Named<Tile>::name() + " " + std::to_string(us).substr(0, 6);
      std::printf(" %s %.2f/%.1f", Named<Tile>::name().c_str(), us, model / 1750);
    };
    (each.template operator()<Tiles>(), ...);
    std::printf(" | best %s %.2f chosen %s\n", best.c_str(), least, choice.c_str());
  }
}

}  // namespace
}  // namespace monograph::cuda

int main(int argc, char** argv) {
  using namespace monograph::cuda;
  const std::string mode = argc > 1 ? argv[1] : "check";
  Rig rig;
  if (mode == "check")
    check_all<WideTile<64, 16, 1, 1, true>, WideTile<128, 32, 1, 2, true>, WideTile<128, 48, 1, 1>,
              WideTile<64, 96, 1, 1>, WideTile<128, 96, 1, 1>, WideTile<64, 16, 1, 4, true>,
              WideTile<64, 32, 1, 4, true>, WideTile<64, 64, 1, 2, true>, WideTile<64, 32, 1, 1, true>,
              WideTile<128, 64, 2, 1, true>, WideTile<128, 128, 2, 1, true>, WideTile<128, 256, 2, 1>,
              WideTile<64, 48, 1, 4>, WideTile<64, 96, 1, 2>, WideTile<128, 96, 1, 2>, WideTile<128, 192, 2, 1>,
              WideTile<64, 32, 1, 1, false, 4>, WideTile<64, 64, 1, 1, false, 4>, WideTile<128, 64, 1, 1, false, 4>,
              DeepTile<64, 32, 1, 1, true>, DeepTile<64, 64, 1, 1, true>, DeepTile<64, 16, 1, 1, true>,
              DeepTile<64, 64, 1, 2, true>, DeepTile<64, 96, 1, 1>>(rig);
  if (mode == "time") {
    const auto plain = [&](const char* what, int n, int k) {
      time_all<AddResidual, WideTile<64, 16, 1, 4, true>, WideTile<64, 32, 1, 4, true>, WideTile<64, 64, 1, 2, true>,
               WideTile<64, 32, 1, 1, true>, WideTile<64, 16, 1, 1, true>, WideTile<128, 32, 1, 2, true>,
               WideTile<128, 64, 2, 1, true>, WideTile<128, 128, 2, 1, true>, WideTile<128, 256, 2, 1>,
               WideTile<64, 32, 1, 1, false, 4>, WideTile<64, 64, 1, 1, false, 4>, WideTile<128, 64, 1, 1, false, 4>,
               DeepTile<64, 32, 1, 1, true>, DeepTile<64, 64, 1, 1, true>, DeepTile<64, 16, 1, 1, true>,
               DeepTile<64, 64, 1, 2, true>>(rig, what, n, k, AddResidual{rig.x, n});
    };
    const auto gated = [&](const char* what, int n, int k) {
      time_all<GatedSilu, WideTile<64, 32, 1, 1>, WideTile<64, 96, 1, 1>, WideTile<128, 96, 1, 1>,
               WideTile<128, 48, 1, 1>, WideTile<64, 32, 1, 4>, WideTile<64, 48, 1, 4>, WideTile<64, 96, 1, 2>,
               WideTile<128, 96, 1, 2>, WideTile<128, 192, 2, 1>, WideTile<128, 256, 2, 1>, DeepTile<64, 32, 1, 1>,
               DeepTile<64, 96, 1, 1>, WideTile<128, 192, 1, 2>, WideTile<128, 96, 2, 1>, WideTile<128, 128, 2, 1>>(
          rig, what, n, k, GatedSilu{rig.x, n / 2});
    };
    const auto heads = [&](const char* what, int n, int k, int n_heads) {
      QkvEpilogue e{};
      e.q_norm = e.k_norm = rig.wanted + 1000000, e.eps = 1e-6f, e.cos = e.sin = rig.wanted, e.n_positions = 4096;
      e.positions = rig.locs, e.n_heads = n_heads, e.n_kv_heads = 8, e.head_dim = 128, e.block_size = 64;
      e.q = e.k = e.v = rig.x;
      e.kv_locs = rig.locs;
      time_all<StoreHeads<128, false>, WideTile<64, 32, 1, 4>, WideTile<64, 64, 1, 2>, WideTile<128, 64, 1, 2>,
               WideTile<128, 128, 2, 1>, WideTile<128, 128, 1, 2>, WideTile<128, 256, 2, 1>, DeepTile<64, 64, 1, 2>,
               WideTile<64, 128, 1, 1>, DeepTile<64, 32, 1, 4>>(rig, what, n, k, {e});
    };
    heads("qkv", 4096, 1024, 16), heads("qkv-8b", 6144, 4096, 32);
    plain("o", 1024, 2048), plain("down", 1024, 3072), gated("gate_up", 6144, 1024);
    plain("o-8b", 4096, 4096), plain("down-8b", 4096, 12288), gated("gate_up-8b", 24576, 4096);
  }
  return rig.n_wrong > 0;
}
