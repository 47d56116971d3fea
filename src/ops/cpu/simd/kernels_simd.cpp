// The primitives with Highway, compiled once per SIMD target; each file beside has one idea.
#include "ops/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd/kernels_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd/attention-inl.h"
#include "ops/cpu/simd/matmul-inl.h"
#include "ops/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
const Kernels* table() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3 ? "avx3" : HWY_TARGET == HWY_AVX2 ? "avx2" : "neon";
  static constexpr Kernels kTable = {kName, Matmul, RmsScale,    Scale,  SiluMultiply, Rotate,        Add,
                                     Widen, Narrow, RoundToBf16, Attend, Maximum,      Probabilities, ExpRow};
  return &kTable;
}
#endif

}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace monograph::cpu {

std::vector<const Kernels*> simd_kernels() {
  const auto supported = hwy::SupportedTargets();
  std::vector<const Kernels*> tables;
#if HWY_TARGETS & HWY_AVX3
  if (supported & HWY_AVX3) tables.push_back(N_AVX3::table());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) tables.push_back(N_AVX2::table());
#endif
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) tables.push_back(N_NEON::table());
#endif
  static_cast<void>(supported);
  return tables;
}

}  // namespace monograph::cpu
#endif
