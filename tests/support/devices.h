// The backends that tests know by name: "cpu"; "cuda", a GPU's own kernels; "cuda_sm80", the same GPU with the kernels
// of older ones.
#pragma once
#include <string>
#include <vector>

#include "monograph/error.h"
#include "ops/backend.h"

namespace monograph::testing {

inline BackendOptions named_backend(const std::string& name) {
  BackendOptions options;
  options.device = name.substr(0, name.find('_'));
  if (name == "cuda_sm80") options.gpu_target = "sm_80";
  if (options.device == "cuda") options.activation_dtype = DType::kBF16;
  return options;
}

/// "cpu", and both of a GPU where the build has it and there is one: a test has one body and runs on each.
inline std::vector<std::string> devices() {
  try {
    make_backend(named_backend("cuda"), Log{});
    return {"cpu", "cuda", "cuda_sm80"};
  } catch (const Error&) {
    return {"cpu"};
  }
}

}  // namespace monograph::testing
