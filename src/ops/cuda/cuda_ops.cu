// Construction, workspaces and weights of the CUDA ops.
#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "base/dequantise.h"

namespace monograph {

CudaOps::CudaOps(CudaDevice& device) : device_(device), stream_(device.stream()) {}

void CudaOps::reserve(const WorkspaceShape& shape) {
  shape_ = shape;
  const std::int64_t tokens = std::max(shape.max_tokens, shape.max_rows);
  const std::int64_t qkv_rows = static_cast<std::int64_t>(shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim;
  const std::int64_t group = shape.n_heads / shape.n_kv_heads;
  normed_ = device_.allocate(2 * tokens * shape.model_dim);
  qkv_ = device_.allocate(4 * tokens * qkv_rows);
  work_ = device_.allocate(4 * 64 + static_cast<std::int64_t>(sizeof(cuda::AttentionItem)) *
                                        (tokens * group / 16 + shape.max_rows + 2));
  processed_ = device_.allocate(4LL * shape.max_rows * shape.vocab_size);
  counts_ = device_.allocate(4LL * shape.max_rows * shape.vocab_size);
}

std::unique_ptr<PackedMatrix> CudaOps::pack(std::span<const MatrixPart> parts, MatrixRole role) {
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
  std::vector<std::uint16_t> packed(static_cast<std::size_t>(rows) * cols);
  std::vector<float> values(cols);
  int first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const MatrixPart& part = parts[p];
    const std::int64_t bytes = row_bytes(part.dtype, cols);
    for (int row = 0; row < part.rows; ++row) {
      const int from = part.row_order.empty() ? row : part.row_order[row];
      dequantise(part.dtype,
                 part.bytes.subspan(static_cast<std::size_t>(from * bytes), static_cast<std::size_t>(bytes)), values);
      // Gate and up rows alternate, so that one thread of the product holds both halves of an output.
      const int to = role == MatrixRole::kGateUp ? 2 * row + static_cast<int>(p) : first + row;
      for (int k = 0; k < cols; ++k) packed[static_cast<std::size_t>(to) * cols + k] = to_bf16(values[k]).bits;
    }
    first += part.rows;
  }
  Buffer buffer = device_.allocate(static_cast<std::int64_t>(packed.size()) * 2);
  device_.copy_to_device(buffer.data(), packed.data(), buffer.bytes());
  device_.synchronize();
  return std::make_unique<CudaPackedMatrix>(std::move(buffer), rows, cols);
}

}  // namespace monograph
