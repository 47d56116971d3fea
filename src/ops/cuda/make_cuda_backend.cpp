#include "ops/cuda/make_cuda_backend.h"

#include "device/cuda/cuda_device.h"
#include "ops/cuda/cuda_ops.h"

namespace monograph {

Backend make_cuda_backend(const BackendOptions& options, const Log& log) {
  auto device = std::make_unique<CudaDevice>(options.allow_untested_gpu);
  log.info(device->description() + ", activations BF16");
  Backend backend;
  backend.name = "cuda";
  backend.ops = std::make_unique<CudaOps>(*device);
  backend.device = std::move(device);
  backend.capabilities.prefill_graph = true;
  backend.capabilities.paged_prefix = true;
  backend.capabilities.mixed_rows = true;
  return backend;
}

}  // namespace monograph
