#include "ops/cuda/make_cuda_backend.h"

#include "device/cuda/cuda_device.h"
#include "ops/cuda/cuda_ops.h"

namespace monograph {
namespace {

/// The head sizes that the kernels are compiled for.
bool supports(const AttentionShape& shape) {
  for (int head_dim : {16, 32, 64, 96, 128, 256})
    if (shape.head_dim == head_dim) return shape.dtype == DType::kBF16;
  return false;
}

}  // namespace

Backend make_cuda_backend(const BackendOptions& options, const Log& log) {
  if (!options.gpu_target.empty() && options.gpu_target != "sm_80")
    throw Error(ErrorCode::kInvalidArgument,
                "--gpu-target " + options.gpu_target + ": expected sm_80, or nothing for the GPU's own kernels",
                "gpu-target");
  auto device = std::make_unique<CudaDevice>(options.allow_untested_gpu);
  const bool hopper = options.gpu_target.empty() && cuda::has_hopper_kernels();
  log.info(device->description() + (hopper ? ", sm_90a" : ", sm_80") + " kernels, activations BF16");
  if (device->support() == GpuSupport::kUntested)
    log.warning(device->description() + ": nobody has tested Monograph on this GPU");
  Backend backend;
  backend.name = "cuda";
  backend.ops = std::make_unique<CudaOps>(*device, hopper);
  backend.device = std::move(device);
  backend.attention.push_back({.name = "cuda_paged",
                               .supports = supports,
                               .refreshes_in_place = true,
                               .capabilities = {.prefill_graph = true, .paged_prefix = true, .mixed_rows = true}});
  return backend;
}

}  // namespace monograph
