#include "ops/cpu/kernels.h"

#include "monograph/error.h"

namespace monograph::cpu {

std::vector<std::string> kernel_targets() {
  std::vector<std::string> names;
  for (const Kernels* table : simd_kernels()) names.emplace_back(table->name);
  names.emplace_back(reference_kernels().name);
  return names;
}

const Kernels& find_kernels(std::string_view target) {
  const std::vector<const Kernels*> simd = simd_kernels();
  if (target.empty()) return simd.empty() ? reference_kernels() : *simd.front();
  for (const Kernels* table : simd)
    if (target == table->name) return *table;
  if (target == reference_kernels().name) return reference_kernels();
  std::string here;
  for (const std::string& name : kernel_targets()) here += (here.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kUnsupported, "--cpu-target " + std::string(target) + ": this CPU has " + here, "cpu_target");
}

}  // namespace monograph::cpu
