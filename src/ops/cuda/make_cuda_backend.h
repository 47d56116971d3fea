// The CUDA backend, as backend.cpp builds it.
#pragma once
#include "ops/backend.h"

namespace monograph {

/// Throws Error(kUnsupported) in one sentence if there is no usable GPU.
Backend make_cuda_backend(const BackendOptions& options, const Log& log);

}  // namespace monograph
