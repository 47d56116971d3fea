#include "device/gpu_support.h"

#include "monograph/error.h"

namespace monograph {

GpuSupport check_gpu(const std::string& name, int major, int minor, bool allow_untested) {
  if (major == 9 && minor == 0) return GpuSupport::kDeclared;
  const std::string found = name + " has compute capability " + std::to_string(major) + "." + std::to_string(minor);
  if (major < 8)
    throw Error(ErrorCode::kUnsupported, found + ", Monograph's kernels need 8.0 or above: use --device cpu", "device");
  if (!allow_untested)
    throw Error(ErrorCode::kUnsupported,
                found +
                    ", Monograph is tested on 9.0 only: --allow-untested-gpu starts it all the same, "
                    "--device cpu does without a GPU",
                "device");
  return GpuSupport::kUntested;
}

}  // namespace monograph
