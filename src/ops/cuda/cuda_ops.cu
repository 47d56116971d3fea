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

namespace {

/// Bytes of each buffer of the workspace.
struct WorkspaceSizes {
  std::int64_t weighted, squares, sampled, sampled_squares, qkv, work, last_work, processed, counts, best_keys;
};

/// A work list of up to `tokens` tokens in `slots` slots, each of which may leave a tile partly filled.
std::int64_t work_bytes(std::int64_t tokens, int heads_per_kv, int slots) {
  const std::int64_t n_items = tokens * heads_per_kv / cuda::kLeastTileRows + slots + 1;
  return cuda::kWorkHeaderBytes + static_cast<std::int64_t>(sizeof(cuda::AttentionItem)) * n_items;
}

WorkspaceSizes sizes_of(const WorkspaceShape& shape) {
  const std::int64_t tokens = std::max(shape.max_tokens, shape.max_rows);
  const std::int64_t qkv_rows = static_cast<std::int64_t>(shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim;
  const int heads_per_kv = shape.n_heads / shape.n_kv_heads;
  const std::int64_t logits = 4LL * shape.max_rows * shape.vocab_size;
  return {.weighted = 2 * cuda::with_whole_tiles(tokens) * shape.model_dim,
          .squares = cuda::squares_bytes(tokens, shape.model_dim),
          .sampled = 2 * cuda::with_whole_tiles(shape.max_rows) * shape.model_dim,
          .sampled_squares = cuda::squares_bytes(shape.max_rows, shape.model_dim),
          .qkv = 4 * tokens * qkv_rows,
          .work = work_bytes(tokens, heads_per_kv, shape.max_rows + 1),
          .last_work = work_bytes(shape.max_rows, heads_per_kv, shape.max_rows),
          .processed = logits,
          .counts = logits,
          .best_keys = 8LL * cuda::kNarrowRows * cuda::kMultiprocessors};
}

}  // namespace

std::int64_t CudaOps::workspace_bytes(const WorkspaceShape& shape) const {
  const WorkspaceSizes s = sizes_of(shape);
  return s.weighted + s.squares + s.sampled + s.sampled_squares + s.qkv + s.work + s.last_work + s.processed +
         s.counts + s.best_keys;
}

void CudaOps::reserve(const WorkspaceShape& shape) {
  shape_ = shape;
  packer_.reset();  // every weight is loaded
  const WorkspaceSizes sizes = sizes_of(shape);
  weighted_ = device_.allocate(sizes.weighted);
  squares_ = device_.allocate(sizes.squares);
  sampled_ = device_.allocate(sizes.sampled);
  sampled_squares_ = device_.allocate(sizes.sampled_squares);
  qkv_ = device_.allocate(sizes.qkv);
  work_ = device_.allocate(sizes.work);
  last_work_ = device_.allocate(sizes.last_work);
  processed_ = device_.allocate(sizes.processed);
  counts_ = device_.allocate(sizes.counts);
  best_keys_ = device_.allocate(sizes.best_keys);
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
