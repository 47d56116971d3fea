// Construction, workspaces and weights of the CUDA ops.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/head_keys.cuh"

#include <algorithm>

#include "base/check.h"

namespace monograph {

namespace cuda {
namespace {

__global__ void marker_kernel() {}

}  // namespace

bool has_hopper_kernels() {
  cudaFuncAttributes loaded{};
  CUDA_CHECK(cudaFuncGetAttributes(&loaded, marker_kernel));
  return loaded.ptxVersion >= 90;
}

}  // namespace cuda

CudaOps::CudaOps(CudaDevice& device, bool hopper)
    : device_(device), stream_(device.stream(), hopper), choice_(device.allocate(sizeof(cuda::FetchChoice))) {}

void CudaOps::reserve(const WorkspaceShape& shape) {
  shape_ = shape;
  packer_.reset();  // every weight is loaded
  const std::int64_t tokens = std::max(shape.max_tokens, shape.max_rows);
  const std::int64_t qkv_rows = static_cast<std::int64_t>(shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim;
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  normed_ = device_.allocate(2 * cuda::with_whole_tiles(tokens) * shape.model_dim);
  qkv_ = device_.allocate(4 * tokens * qkv_rows);
  work_ = device_.allocate(4 * 64 + static_cast<std::int64_t>(sizeof(cuda::AttentionItem)) *
                                        (tokens * group / 16 + shape.max_rows + 2));
  processed_ = device_.allocate(4LL * shape.max_rows * shape.vocab_size);
  counts_ = device_.allocate(4LL * shape.max_rows * shape.vocab_size);
  best_keys_ = device_.allocate(8LL * cuda::kNarrowRows * cuda::kMultiprocessors);
}

std::unique_ptr<PackedMatrix> CudaOps::pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim) {
  CHECK(!parts.empty());
  const int cols = parts.front().cols;
  int rows = 0;
  for (const MatrixPart& part : parts) {
    CHECK(part.cols == cols);
    rows += part.rows;
  }
  if (cols % 64 != 0)
    throw Error(ErrorCode::kUnsupported,
                "a matrix of " + std::to_string(cols) + " columns: the GPU kernels need a multiple of 64");
  if (!packer_) packer_ = std::make_unique<cuda::WeightPacker>(device_);
  return std::make_unique<CudaPackedMatrix>(packer_->pack(parts, role, head_dim), rows, cols);
}

}  // namespace monograph
