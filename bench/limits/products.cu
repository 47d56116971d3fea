#include <cublasLt.h>
#include <dlfcn.h>

#include "gpu_limits.h"

namespace monograph::limits {
namespace {

/// cuBLASLt's functions, looked up in a library found at run time.
struct Library {
  explicit Library(const std::string& path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle) throw Error(ErrorCode::kUnsupported, std::string("cuBLASLt: ") + dlerror());
  }
  template <typename Function>
  Function find(const char* name) const {
    void* function = dlsym(handle, name);
    if (!function) throw Error(ErrorCode::kUnsupported, std::string("cuBLASLt has no ") + name);
    return reinterpret_cast<Function>(function);
  }
  void* handle;
#define FUNCTION(name) decltype(&name) name##_ = find<decltype(&name)>(#name)
  FUNCTION(cublasLtCreate);
  FUNCTION(cublasLtDestroy);
  FUNCTION(cublasLtMatmulDescCreate);
  FUNCTION(cublasLtMatmulDescSetAttribute);
  FUNCTION(cublasLtMatrixLayoutCreate);
  FUNCTION(cublasLtMatmulPreferenceCreate);
  FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  FUNCTION(cublasLtMatmul);
#undef FUNCTION
};

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorCode::kDevice, std::string(call) + ": status " + std::to_string(status));
}

__global__ void random_kernel(std::uint16_t* to, std::int64_t n, std::uint32_t seed) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x ^= x >> 12;
    to[i] = static_cast<std::uint16_t>((x & 0x8000u) | (0x3c00u + (x >> 16 & 0xffu)));  // +-0.008 to 0.03
  }
}

struct Shape {
  int m, n, k;
};

class Products {
 public:
  Products(CudaDevice& device, const Library& library) : device_(device), lib_(library) {
    check(lib_.cublasLtCreate_(&handle_), "cublasLtCreate");
    for (Buffer* buffer : {&weights_, &inputs_}) {
      *buffer = device.allocate(kArea);
      random_kernel<<<1056, 512, 0, device.stream()>>>(buffer->as<std::uint16_t>(), kArea / 2, 7u);
      CUDA_CHECK(cudaGetLastError());
    }
    outputs_ = device.allocate(kArea);
    workspace_ = device.allocate(kWorkspace);
  }
  ~Products() { lib_.cublasLtDestroy_(handle_); }

  /// out [m, n] = in [m, k] @ weights [n, k]^T, the fastest of the first candidates, weights from a different place
  /// each time so that they are not in the cache.
  double time_us(const Shape& s) {
    cublasLtMatmulDesc_t operation{};
    check(lib_.cublasLtMatmulDescCreate_(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(lib_.cublasLtMatmulDescSetAttribute_(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
    // Column-major, as the library wants it: out^T [n, m] = weights^T^T @ in^T.
    const cublasLtMatrixLayout_t a = layout(s.k, s.n), b = layout(s.k, s.m), c = layout(s.n, s.m);
    cublasLtMatmulPreference_t preference{};
    check(lib_.cublasLtMatmulPreferenceCreate_(&preference), "cublasLtMatmulPreferenceCreate");
    const std::uint64_t workspace = kWorkspace;
    check(lib_.cublasLtMatmulPreferenceSetAttribute_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                     sizeof workspace),
          "cublasLtMatmulPreferenceSetAttribute");
    constexpr int kCandidates = 4;
    cublasLtMatmulHeuristicResult_t found[kCandidates];
    int n_found = 0;
    check(
        lib_.cublasLtMatmulAlgoGetHeuristic_(handle_, operation, a, b, c, c, preference, kCandidates, found, &n_found),
        "cublasLtMatmulAlgoGetHeuristic");
    const std::int64_t weight_bytes = 2LL * s.n * s.k, n_places = std::max<std::int64_t>(1, kArea / weight_bytes);
    double best = 1e30;
    for (int i = 0; i < n_found; ++i) {
      const float one = 1.0f, zero = 0.0f;
      best = std::min(best, device_us(device_, 7, [&](int run) {
                        const char* weights = weights_.as<char>() + run % n_places * weight_bytes;
                        check(lib_.cublasLtMatmul_(handle_, operation, &one, weights, a, inputs_.data(), b, &zero,
                                                   outputs_.data(), c, outputs_.data(), c, &found[i].algo,
                                                   workspace_.data(), kWorkspace, device_.stream()),
                              "cublasLtMatmul");
                      }));
    }
    return best;
  }

 private:
  static constexpr std::int64_t kArea = std::int64_t{1} << 30;
  static constexpr std::size_t kWorkspace = 32 << 20;

  cublasLtMatrixLayout_t layout(int rows, int cols) const {
    cublasLtMatrixLayout_t made{};
    check(lib_.cublasLtMatrixLayoutCreate_(&made, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(cols), rows),
          "cublasLtMatrixLayoutCreate");
    return made;
  }

  CudaDevice& device_;
  const Library& lib_;
  cublasLtHandle_t handle_{};
  Buffer weights_, inputs_, outputs_, workspace_;
};

}  // namespace

Json products(CudaDevice& device, const std::string& library) try {
  const Library lt(library.empty() ? "libcublasLt.so.13" : library);
  Products products(device, lt);
  Json rows = Json::array();
  double best = 0;
  const auto add = [&](const Shape& s) {
    const double us = products.time_us(s), rate = 2.0 * s.m * s.n * s.k / us / 1e6;
    rows.push_back({{"m", s.m}, {"n", s.n}, {"k", s.k}, {"us", us}, {"tflop_s", rate}});
    best = std::max(best, rate);
  };
  // The four products of a layer of Qwen3-0.6B and of Qwen3-8B.
  for (const auto& [n, k] : {std::pair{4096, 1024},
                             {1024, 2048},
                             {6144, 1024},
                             {1024, 3072},
                             {6144, 4096},
                             {4096, 4096},
                             {24576, 4096},
                             {4096, 12288}})
    for (int m : {1, 16, 64, 128, 256, 512, 1024, 2048, 8192}) add({m, n, k});
  add({8192, 8192, 8192});
  return {{"rows", rows}, {"tflop_s", best}};
} catch (const Error& e) {
  return {{"error", e.what()}};
}

}  // namespace monograph::limits
