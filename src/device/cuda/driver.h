// The driver's own interface, found at run time: the program starts on machines without a driver.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "device/cuda/handles.h"

namespace monograph::cuda {

/// The driver's function of this name as of `version` (12000 for 12.0). Throws Error(kUnsupported) if it has none.
template <typename Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess || !found)
    throw Error(ErrorCode::kUnsupported, std::string("the driver has no ") + name + "; version " +
                                             std::to_string(version / 1000) + "." +
                                             std::to_string(version % 1000 / 10) + " or newer is needed");
  return reinterpret_cast<Function>(found);
}

}  // namespace monograph::cuda
