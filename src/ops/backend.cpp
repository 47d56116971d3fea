#include "ops/backend.h"

#include "device/cpu/cpu_device.h"
#include "monograph/error.h"
#include "ops/cpu/cpu_ops.h"
#ifdef MONOGRAPH_CUDA
#include "ops/cuda/make_cuda_backend.h"
#endif

namespace monograph {
namespace {

Backend make_cpu_backend(const BackendOptions& options, const Log& log) {
  const cpu::Kernels& kernels = cpu::find_kernels(options.cpu_target);
  Backend backend;
  backend.name = "cpu";
  auto device = std::make_unique<CpuDevice>(options.threads, options.pin_threads);
  backend.ops = std::make_unique<cpu::CpuOps>(*device, options.activation_dtype, kernels);
  log.info(device->description() + ", " + kernels.name + " kernels, activations " +
           std::string(to_string(options.activation_dtype)));
  backend.device = std::move(device);
  backend.attention.push_back({.name = "cpu_paged",
                               .supports = [](const AttentionShape& shape) { return shape.head_dim > 0; },
                               .refreshes_in_place = true,
                               .capabilities = {.prefill_graph = true, .paged_prefix = true, .mixed_rows = true}});
  return backend;
}

}  // namespace

Backend make_backend(const BackendOptions& options, const Log& log) {
  if (options.activation_dtype != DType::kF32 && options.activation_dtype != DType::kBF16)
    throw Error(ErrorCode::kUnsupported, "activations of type " + std::string(to_string(options.activation_dtype)) +
                                             ": the CPU backend offers F32 and BF16");
  if (options.device == "auto" || options.device == "cpu") return make_cpu_backend(options, log);
#ifdef MONOGRAPH_CUDA
  if (options.device == "cuda") return make_cuda_backend(options, log);
#endif
  if (options.device == "cuda")
    throw Error(ErrorCode::kUnsupported, "--device cuda: this build has no CUDA backend; use --device cpu", "device");
  throw Error(ErrorCode::kInvalidArgument, "--device " + options.device + ": expected auto, cpu or cuda", "device");
}

}  // namespace monograph
