// Chooses a backend at run time.
#pragma once
#include <memory>
#include <string>

#include "base/log.h"
#include "device/device.h"
#include "ops/ops.h"

namespace monograph {

/// What a backend's attention declares; each false by default, each tested when true. (SPEC C.3)
struct BackendCapabilities {
  bool prefill_graph = false;
  bool paged_prefix = false;
  bool mixed_rows = false;
  bool publish_kv = false;
  bool feature_rows = false;
  bool token_types = false;
};

struct BackendOptions {
  std::string device = "auto";  ///< "auto", "cpu", "cuda"
  DType activation_dtype = DType::kF32;
  int threads = 0;  ///< CPU: 0 = what affinity and the cgroup quota allow
  bool pin_threads = false;
  std::string cpu_target;  ///< CPU: "" = best; "reference" = plain loops; else a SIMD target's name
  bool allow_untested_gpu = false;
};

struct Backend {
  std::unique_ptr<Device> device;  ///< Outlives ops and everything allocated from it.
  std::unique_ptr<Ops> ops;
  BackendCapabilities capabilities;
  std::string name;  ///< "cpu", "cuda"
};

/// Throws Error(kUnsupported) in one sentence if the device is not there or not supported.
Backend make_backend(const BackendOptions& options, const Log& log);

}  // namespace monograph
