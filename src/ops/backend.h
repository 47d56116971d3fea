// Chooses a backend at run time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "device/device.h"
#include "ops/attention.h"
#include "ops/ops.h"

namespace monograph {

struct BackendOptions {
  std::string device = "auto";  ///< "auto", "cpu", "cuda"
  DType activation_dtype = DType::kF32;
  int threads = 0;  ///< CPU: 0 = what affinity and the cgroup quota allow
  bool pin_threads = false;
  std::string cpu_target;  ///< CPU: "" = best; "reference" = plain loops; else a SIMD target's name
  std::string gpu_target;  ///< GPU: "" = its own kernels; "sm_80" = those of compute capability 8.0
  bool allow_untested_gpu = false;
};

struct Backend {
  std::unique_ptr<Device> device;  ///< Outlives ops and everything allocated from it.
  std::unique_ptr<Ops> ops;
  std::vector<AttentionBackend> attention;  ///< The first that supports a model's shape serves it.
  std::string name;                         ///< "cpu", "cuda"
};

/// Throws Error(kUnsupported) in one sentence if the device is not there or not supported.
Backend make_backend(const BackendOptions& options, const Log& log);

}  // namespace monograph
