// On which NVIDIA GPUs Monograph starts. Knows nothing of CUDA, so that every build tests it.
#pragma once
#include <string>

namespace monograph {

enum class GpuSupport {
  kDeclared,  ///< The compute capability that the results under bench/results were made on.
  kUntested,  ///< Has all that the kernels of compute capability 8.0 need; nobody has run them there.
};

/// The support of a GPU with compute capability `major`.`minor`, called `name`. Throws Error(kUnsupported, "device") in
/// one sentence for one that is untested unless `allow_untested` (--allow-untested-gpu), and below 8.0 always. (S-61)
GpuSupport check_gpu(const std::string& name, int major, int minor, bool allow_untested);

}  // namespace monograph
