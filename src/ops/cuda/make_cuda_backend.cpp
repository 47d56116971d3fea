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
  auto device = std::make_unique<CudaDevice>(options.allow_untested_gpu);
  log.info(device->description() + ", activations BF16");
  Backend backend;
  backend.name = "cuda";
  backend.ops = std::make_unique<CudaOps>(*device);
  backend.device = std::move(device);
  backend.attention.push_back({.name = "cuda_paged",
                               .supports = supports,
                               .refreshes_in_place = true,
                               .capabilities = {.prefill_graph = true, .paged_prefix = true, .mixed_rows = true}});
  return backend;
}

}  // namespace monograph
