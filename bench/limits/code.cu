#include "gpu_limits.h"

namespace monograph::limits {
namespace {

constexpr int kPasses = 4;

// Straight-line code of kInstructions multiply-adds, passed through kPasses times; cycles of each pass.
template <int kInstructions>
__global__ void code_kernel(float* values, long long* cycles) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = values[i + threadIdx.x];
  const float b = values[9], c = values[10];
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    const long long start = clock64();
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
      asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a[i % 8]) : "f"(b), "f"(c));
    if (threadIdx.x == 0) cycles[blockIdx.x * kPasses + pass] = clock64() - start;
  }
  float sum = 0.0f;
  for (float value : a) sum += value;
  if (sum == 12345.0f) values[0] = sum;
}

class Codes {
 public:
  explicit Codes(CudaDevice& device)
      : device_(device), values_(device.allocate(4096)), cycles_(device.allocate(8LL * kCtas * kPasses)) {}

  /// Cycles an instruction in the first pass after another kernel's code came between, and in the last one.
  template <int kInstructions>
  Json row() {
    run<kInstructions>();  // loads the module
    run<kOther>();
    const std::vector<double> cycles = run<kInstructions>();
    return {{"kilobytes", kInstructions * 16 / 1024},
            {"cycles_first", cycles.front() / kInstructions},
            {"cycles_again", cycles.back() / kInstructions}};
  }

 private:
  static constexpr int kCtas = 132, kOther = 16384;

  template <int kInstructions>
  std::vector<double> run() {
    code_kernel<kInstructions><<<kCtas, 32, 0, device_.stream()>>>(values_.as<float>(), cycles_.as<long long>());
    CUDA_CHECK(cudaGetLastError());
    std::vector<long long> all(kCtas * kPasses);
    device_.copy_to_host(all.data(), cycles_.data(), cycles_.bytes());
    device_.synchronize();
    std::vector<double> medians;
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<double> of_pass;
      for (int cta = 0; cta < kCtas; ++cta) of_pass.push_back(static_cast<double>(all[cta * kPasses + pass]));
      medians.push_back(median(of_pass));
    }
    return medians;
  }

  CudaDevice& device_;
  Buffer values_, cycles_;
};

}  // namespace

Json code(CudaDevice& device) {
  Codes codes(device);
  return Json::array({codes.row<512>(), codes.row<1024>(), codes.row<2048>(), codes.row<4096>(), codes.row<6144>(),
                      codes.row<8192>(), codes.row<12288>()});
}

}  // namespace monograph::limits
