// Times the products of few rows on a GPU as a step runs them: chains of dependent kernels in one graph, a layer's
// weights after another's, so that nothing is left in the caches. Beside ours stands cuBLASLt's best algorithm for the
// same product. First it checks bits: every kernel against a plain one.
//   chain_bench [what=all] [repeats=20]      what: bits, chain, products, head
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/cuda/gemm.cuh"

namespace monograph::cuda {
namespace {

using bf16 = __nv_bfloat16;
constexpr double kBytesPerUs = 4.55e6;  // what a plain read kernel reaches on an H200

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t n) : n_(n) { CUDA_CHECK(cudaMalloc(&data_, n * sizeof(T))); }
  DeviceArray(DeviceArray&& o) noexcept : data_(std::exchange(o.data_, nullptr)), n_(o.n_) {}
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }
  std::int64_t size() const { return n_; }

 private:
  T* data_ = nullptr;
  std::int64_t n_;
};

__device__ float noise(std::uint64_t i, std::uint32_t seed) {
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ (static_cast<std::uint64_t>(seed) << 32);
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 29)) * 0x94d049bb133111ebull;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32)) * 0x1p-31f;
}
template <typename T>
__global__ void fill_kernel(T* to, std::int64_t n, float scale, float middle, std::uint32_t seed) {
  for (std::int64_t i = blockIdx.x * 256ll + threadIdx.x; i < n; i += 256ll * gridDim.x)
    to[i] = static_cast<T>(middle + scale * noise(i, seed));
}
template <typename T>
DeviceArray<T> random_array(std::int64_t n, float scale, float middle = 0.0f) {
  static std::uint32_t seed = 0;
  DeviceArray<T> made(n);
  fill_kernel<<<1024, 256>>>(made.get(), n, scale, middle, ++seed);
  CUDA_CHECK(cudaDeviceSynchronize());
  return made;
}

// ---- bits ----

// The class of bits, spelled out: one warp per 16 rows and 8 columns, mma after mma, segment after segment.
__global__ void plain_kernel(float* out, const bf16* a, const bf16* w, int rows, int n, int k, int segments) {
  const int lane = threadIdx.x, row = lane / 4, column = blockIdx.x * 8 + lane / 4, pair = (lane % 4) * 2;
  const auto two = [&](const bf16* from, int index, int count, int at) -> std::uint32_t {
    return index < count ? *reinterpret_cast<const std::uint32_t*>(from + static_cast<std::int64_t>(index) * k + at)
                         : 0;
  };
  float sum[4];
  for (int s = 0; s < segments; ++s) {
    float c[4] = {};
    for (int at = s * (k / segments); at < (s + 1) * (k / segments); at += 16) {
      const std::uint32_t fragment[4] = {two(a, row, rows, at + pair), two(a, row + 8, rows, at + pair),
                                         two(a, row, rows, at + pair + 8), two(a, row + 8, rows, at + pair + 8)};
      const std::uint32_t b[2] = {two(w, column, n, at + pair), two(w, column, n, at + pair + 8)};
      mma(c, fragment, b);
    }
    for (int i = 0; i < 4; ++i) sum[i] = s == 0 ? c[i] : sum[i] + c[i];
  }
  for (int i = 0; i < 4; ++i) {
    const int m = row + i / 2 * 8, at = blockIdx.x * 8 + pair + i % 2;
    if (m < rows && at < n) out[static_cast<std::int64_t>(m) * n + at] = sum[i];
  }
}
__global__ void plain_norm_kernel(bf16* out, const bf16* x, const float* weight, float eps, int k) {
  normalise_row(out + static_cast<std::int64_t>(blockIdx.x) * k, x + static_cast<std::int64_t>(blockIdx.x) * k, weight,
                eps, k);
}

std::vector<float> host(const DeviceArray<float>& from) {
  std::vector<float> to(from.size());
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(to.data(), from.get(), to.size() * 4, cudaMemcpyDeviceToHost));
  return to;
}

int n_wrong = 0, n_checked = 0;
void compare(const DeviceArray<float>& ours, const DeviceArray<float>& plain, int rows, int n,
             const std::string& what) {
  const std::vector<float> a = host(ours), b = host(plain);
  std::int64_t differ = 0, nans = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows) * n; ++i) {
    differ += std::memcmp(&a[i], &b[i], 4) != 0;
    nans += b[i] != b[i];
  }
  ++n_checked;
  if (differ == 0 && nans == 0) return;
  ++n_wrong;
  std::printf("WRONG %s: %lld of %d differ, %lld NaN\n", what.c_str(), static_cast<long long>(differ), rows * n,
              static_cast<long long>(nans));
}

template <int GROUPS>
void check_narrow(cudaStream_t stream, const GemmInputs& in, const RowNorm& norm, int segments, bool normed,
                  const NarrowTuning& tuning, const StoreFloat& to) {
  normed ? launch_narrow<GROUPS, true>(stream, in, norm, segments, tuning, to)
         : launch_narrow<GROUPS, false>(stream, in, norm, segments, tuning, to);
}

void check_bits(cudaStream_t stream) {
  const int shapes[][2] = {{4096, 1024},   {1024, 2048},  {6144, 1024},  {1024, 3072},  {960, 576},
                           {1004, 64},     {2048, 1536},  {6144, 4096},  {4096, 12288}, {49151, 576},
                           {151936, 1024}, {24576, 4096}, {2048, 11008}, {1536, 8960}};
  for (const auto& [n, k] : shapes)
    for (const int rows : {1, 2, 5, 8, 9, 16}) {
      const auto w = random_array<bf16>(static_cast<std::int64_t>(n) * k, 0.1f), x = random_array<bf16>(16ll * k, 1.0f);
      const auto weight = random_array<float>(k, 0.2f, 1.0f);
      const DeviceArray<bf16> normed(16ll * k);
      const DeviceArray<float> ours(16ll * n), plain(16ll * n);
      const RowNorm norm{weight.get(), 1e-6f, nullptr};
      plain_norm_kernel<<<16, 32, 0, stream>>>(normed.get(), x.get(), weight.get(), 1e-6f, k);
      for (const bool with_norm : {false, true}) {
        std::vector<int> segment_counts = {1};
        for (const int s : {2, 3, 4})
          if (n <= 2048 && k % (64 * s) == 0) segment_counts.push_back(s);
        for (const int segments : segment_counts) {
          plain_kernel<<<(n + 7) / 8, 32, 0, stream>>>(plain.get(), with_norm ? normed.get() : x.get(), w.get(), rows,
                                                       n, k, segments);
          const GemmInputs in{x.get(), w.get(), n, k, nullptr, rows};
          const StoreFloat to{ours.get(), n, n};
          const std::string what = "n " + std::to_string(n) + " k " + std::to_string(k) + " rows " +
                                   std::to_string(rows) + " segments " + std::to_string(segments) +
                                   (with_norm ? " norm" : "");
          for (const NarrowTuning& tuning :
               {NarrowTuning{}, NarrowTuning{4, 256, 60 * 1024, 60 * 1024}, NarrowTuning{8, 1024}}) {
            if (with_norm && !can_norm(rows, k)) break;
            CUDA_CHECK(cudaMemsetAsync(ours.get(), 0xff, ours.size() * 4, stream));
            check_narrow<1>(stream, in, norm, segments, with_norm, tuning, to);
            compare(ours, plain, rows, n, what + " one group");
            CUDA_CHECK(cudaMemsetAsync(ours.get(), 0xff, ours.size() * 4, stream));
            check_narrow<2>(stream, in, norm, segments, with_norm, tuning, to);
            compare(ours, plain, rows, n, what + " two groups");
          }
        }
      }
    }
  std::printf("bits: %d checked, %d wrong\n", n_checked, n_wrong);
}

// ---- times ----

double graph_us(cudaStream_t stream, int repeats, const std::function<void()>& work) {
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  work();
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec = nullptr;
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::vector<float> ms(repeats);
  for (int i = -2; i < repeats; ++i) {
    CUDA_CHECK(cudaEventRecord(begin, stream));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaEventRecord(end, stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    if (i >= 0) CUDA_CHECK(cudaEventElapsedTime(&ms[i], begin, end));
  }
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(graph));
  std::sort(ms.begin(), ms.end());
  return ms[repeats / 2] * 1000.0;
}

/// cuBLASLt by hand, found at run time: the library is large and nothing else needs it.
class Lt {
 public:
  Lt() {
    const char* path = std::getenv("CUBLASLT");
    library_ = dlopen(path ? path : "libcublasLt.so.13", RTLD_NOW);
    if (!library_) return;
    load(create_, "cublasLtCreate"), load(matmul_, "cublasLtMatmul"), load(desc_, "cublasLtMatmulDescCreate");
    load(set_, "cublasLtMatmulDescSetAttribute"), load(layout_, "cublasLtMatrixLayoutCreate");
    load(preference_, "cublasLtMatmulPreferenceCreate"), load(set_preference_, "cublasLtMatmulPreferenceSetAttribute");
    load(heuristic_, "cublasLtMatmulAlgoGetHeuristic");
    create_(&handle_);
    CUDA_CHECK(cudaMalloc(&workspace_, kWorkspace));
  }
  bool found() const { return library_ != nullptr; }

  /// The time of one product out [rows, n] = a [rows, k] w[i] [n, k]^T, the best of 16 algorithms.
  double best_us(cudaStream_t stream, int repeats, const bf16* a, const std::vector<const bf16*>& w, bf16* out,
                 int rows, int n, int k) {
    cublasLtMatmulDesc_t desc;
    desc_(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set_(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    cublasLtMatrixLayout_t lw, la, lo;
    layout_(&lw, CUDA_R_16BF, k, n, k), layout_(&la, CUDA_R_16BF, k, rows, k), layout_(&lo, CUDA_R_16BF, n, rows, n);
    cublasLtMatmulPreference_t preference;
    preference_(&preference);
    set_preference_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace);
    cublasLtMatmulHeuristicResult_t results[16];
    int n_results = 0;
    heuristic_(handle_, desc, lw, la, lo, lo, preference, 16, results, &n_results);
    double best = 1e9;
    const float one = 1.0f, zero = 0.0f;
    for (int i = 0; i < n_results; ++i) {
      const auto run = [&](const bf16* weights) {
        return matmul_(handle_, desc, &one, weights, lw, a, la, &zero, out, lo, out, lo, &results[i].algo, workspace_,
                       kWorkspace, stream);
      };
      if (run(w[0]) != CUBLAS_STATUS_SUCCESS) continue;
      CUDA_CHECK(cudaStreamSynchronize(stream));
      const double us = graph_us(stream, std::max(repeats / 4, 3), [&] {
        for (const bf16* weights : w) run(weights);
      });
      best = std::min(best, us / static_cast<double>(w.size()));
    }
    return best;
  }

 private:
  template <typename F>
  void load(F& to, const char* name) {
    to = reinterpret_cast<F>(dlsym(library_, name));
  }
  static constexpr std::size_t kWorkspace = 32u << 20;
  void* library_ = nullptr;
  void* workspace_ = nullptr;
  cublasLtHandle_t handle_{};
  decltype(&cublasLtCreate) create_{};
  decltype(&cublasLtMatmul) matmul_{};
  decltype(&cublasLtMatmulDescCreate) desc_{};
  decltype(&cublasLtMatmulDescSetAttribute) set_{};
  decltype(&cublasLtMatrixLayoutCreate) layout_{};
  decltype(&cublasLtMatmulPreferenceCreate) preference_{};
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference_{};
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_{};
};

struct Sizes {
  const char* name;
  int layers, hidden, ffn, attention, qkv;
};
constexpr Sizes kModels[] = {{"0.6B", 28, 1024, 3072, 2048, 4096}, {"8B", 12, 4096, 12288, 4096, 6144}};

struct Model {
  const Sizes& s;
  std::vector<DeviceArray<bf16>> qkv, o, gate_up, down;
  DeviceArray<float> norm, qkv_out;
  DeviceArray<bf16> x, attention, hidden, out;
  explicit Model(const Sizes& sizes)
      : s(sizes),
        norm(random_array<float>(s.hidden, 0.2f, 1.0f)),
        qkv_out(16ll * s.qkv),
        x(random_array<bf16>(16ll * s.hidden, 1.0f)),
        attention(random_array<bf16>(16ll * s.attention, 1.0f)),
        hidden(random_array<bf16>(16ll * s.ffn, 1.0f)),
        out(16ll * 2 * s.ffn) {
    for (int i = 0; i < s.layers; ++i) {
      qkv.push_back(random_array<bf16>(static_cast<std::int64_t>(s.qkv) * s.hidden, 0.02f));
      o.push_back(random_array<bf16>(static_cast<std::int64_t>(s.attention) * s.hidden, 0.02f));
      gate_up.push_back(random_array<bf16>(2ll * s.ffn * s.hidden, 0.02f));
      down.push_back(random_array<bf16>(static_cast<std::int64_t>(s.ffn) * s.hidden, 0.02f));
    }
  }
};

/// Which way each of the four products goes; what is measured.
struct Way {
  NarrowTuning tuning;
  int split = 0;  // 1: o and down by segments; 2: all by two at least
  int gate_groups = 1;
};
int wanted_segments(const Way& way, int n, int k) {
  if (way.split == 2 && n > 2048 && k % 128 == 0) return 2;
  if (way.split == 0 || n > 2048 || k < 1024) return k_segments(n, k);
  for (const int s : {4, 3, 2})
    if (k % (64 * s) == 0) return s;
  return 1;
}

class Products {
 public:
  Products(cudaStream_t stream, const Model& m, int rows, const Way& way)
      : stream_(stream), m_(m), rows_(rows), way_(way) {}
  void qkv(int i) const {
    product<true, 1>(m_.x, m_.qkv[i], m_.s.qkv, m_.s.hidden, StoreFloat{m_.qkv_out.get(), m_.s.qkv, m_.s.qkv});
  }
  void o(int i) const {
    product<false, 1>(m_.attention, m_.o[i], m_.s.hidden, m_.s.attention, AddResidual{m_.x.get(), m_.s.hidden});
  }
  void gate_up(int i) const {
    const GatedSilu to{m_.hidden.get(), m_.s.ffn};
    if (way_.gate_groups == 2) return product<true, 2>(m_.x, m_.gate_up[i], 2 * m_.s.ffn, m_.s.hidden, to);
    product<true, 1>(m_.x, m_.gate_up[i], 2 * m_.s.ffn, m_.s.hidden, to);
  }
  void down(int i) const {
    product<false, 1>(m_.hidden, m_.down[i], m_.s.hidden, m_.s.ffn, AddResidual{m_.x.get(), m_.s.hidden});
  }

 private:
  template <bool kNorm, int GROUPS, typename Epilogue>
  void product(const DeviceArray<bf16>& a, const DeviceArray<bf16>& w, int n, int k, const Epilogue& to) const {
    const GemmInputs in{a.get(), w.get(), n, k, nullptr, rows_};
    const RowNorm norm{m_.norm.get(), 1e-6f, nullptr};
    const int segments = wanted_segments(way_, n, k);
    launch_narrow<GROUPS, kNorm>(stream_, in, norm, segments, way_.tuning, to);
  }
  cudaStream_t stream_;
  const Model& m_;
  int rows_;
  const Way& way_;
};

void print_line(const std::string& what, int rows, double us, double bytes) {
  std::printf("%-34s M %2d  %8.2f us  %5.1f %% of byte time\n", what.c_str(), rows, us,
              100.0 * bytes / kBytesPerUs / us);
}

void time_chains(cudaStream_t stream, int repeats) {
  for (const Sizes& s : kModels) {
    const Model m(s);
    const double bytes = 2.0 * s.hidden * (s.qkv + s.attention + 3.0 * s.ffn);
    const Way ways[] = {{{}, 0, 1},
                        {{}, 1, 1},
                        {{}, 1, 2},
                        {{}, 2, 1},
                        {{8, 1024, 110 * 1024, 200 * 1024}, 1, 1},
                        {{8, 512, 110 * 1024, 110 * 1024}, 1, 1}};
    for (const int rows : {1, 8, 16})
      for (const Way& way : ways) {
        const Products p(stream, m, rows, way);
        const double us = graph_us(stream, repeats, [&] {
          for (int i = 0; i < s.layers; ++i) {
            p.qkv(i);
            p.o(i);
            p.gate_up(i);
            p.down(i);
          }
        });
        char what[100];
        std::snprintf(what, sizeof what, "%s layer w%d c%d %dK split%d g%d", s.name, way.tuning.max_warps,
                      way.tuning.chunk, way.tuning.streaming_bytes / 1024, way.split, way.gate_groups);
        print_line(what, rows, us / s.layers, bytes);
      }
  }
}

void time_products(cudaStream_t stream, int repeats) {
  Lt lt;
  if (!lt.found()) std::printf("no cuBLASLt: %s\n", dlerror());
  std::printf(
      "\n| product | N | K | M | ours us | of byte time | cublasLt us | ours / cublasLt "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const Sizes& s : kModels) {
    const Model m(s);
    const Way way{{}, 1, 1};
    struct Product {
      const char* name;
      const std::vector<DeviceArray<bf16>>& w;
      int n, k;
      void (Products::*run)(int) const;
    };
    const Product products[] = {{"qkv", m.qkv, s.qkv, s.hidden, &Products::qkv},
                                {"o", m.o, s.hidden, s.attention, &Products::o},
                                {"gate_up", m.gate_up, 2 * s.ffn, s.hidden, &Products::gate_up},
                                {"down", m.down, s.hidden, s.ffn, &Products::down}};
    for (const Product& product : products)
      for (const int rows : {1, 8, 16}) {
        const Products p(stream, m, rows, way);
        const double ours = graph_us(stream, repeats,
                                     [&] {
                                       for (int i = 0; i < s.layers; ++i) (p.*product.run)(i);
                                     }) /
                            s.layers;
        std::vector<const bf16*> w;
        for (const auto& weights : product.w) w.push_back(weights.get());
        const double theirs =
            lt.found() ? lt.best_us(stream, repeats, m.hidden.get(), w, m.out.get(), rows, product.n, product.k) : 0.0;
        std::printf("| %s %s | %d | %d | %d | %.2f | %.0f %% | %.2f | %.2f |\n", s.name, product.name, product.n,
                    product.k, rows, ours, 100.0 * 2.0 * product.n * product.k / kBytesPerUs / ours, theirs,
                    theirs > 0 ? ours / theirs : 0.0);
      }
  }
}

void time_head(cudaStream_t stream, int repeats) {
  Lt lt;
  for (const auto& [n, k] : {std::pair{151936, 1024}, std::pair{151936, 4096}}) {
    std::vector<DeviceArray<bf16>> w;
    std::vector<const bf16*> pointers;
    for (int i = 0; i < 3; ++i) {
      w.push_back(random_array<bf16>(static_cast<std::int64_t>(n) * k, 0.02f));
      pointers.push_back(w.back().get());
    }
    const auto x = random_array<bf16>(16ll * k, 1.0f);
    const auto weight = random_array<float>(k, 0.2f, 1.0f);
    const DeviceArray<float> out(16ll * n);
    for (const int rows : {1, 8, 16})
      for (const auto& [groups, tuning] :
           {std::pair{1, NarrowTuning{}}, std::pair{1, NarrowTuning{8, 1024}}, std::pair{2, NarrowTuning{}},
            std::pair{2, NarrowTuning{8, 512, 110 * 1024, 110 * 1024}}}) {
        if (!can_norm(rows, k)) continue;
        const double us = graph_us(stream, repeats, [&, groups = groups, tuning = tuning] {
          for (int i = 0; i < 6; ++i) {
            const GemmInputs in{x.get(), pointers[i % 3], n, k, nullptr, rows};
            const RowNorm norm{weight.get(), 1e-6f, nullptr};
            const StoreFloat to{out.get(), n, n};
            groups == 1 ? check_narrow<1>(stream, in, norm, 1, true, tuning, to)
                        : check_narrow<2>(stream, in, norm, 1, true, tuning, to);
          }
        });
        char what[100];
        std::snprintf(what, sizeof what, "head k%d w%d c%d %dK g%d", k, tuning.max_warps, tuning.chunk,
                      tuning.streaming_bytes / 1024, groups);
        print_line(what, rows, us / 6, 2.0 * n * k);
      }
  }
}

}  // namespace
}  // namespace monograph::cuda

int main(int argc, char** argv) {
  using namespace monograph::cuda;
  const std::string what = argc > 1 ? argv[1] : "all";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 20;
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaFree(nullptr));
  if (what == "all" || what == "bits") check_bits(stream);
  if (what == "all" || what == "chain") time_chains(stream, repeats);
  if (what == "all" || what == "head") time_head(stream, repeats);
  if (what == "all" || what == "products") time_products(stream, repeats);
  CUDA_CHECK(cudaDeviceSynchronize());
  return n_wrong == 0 ? 0 : 1;
}
