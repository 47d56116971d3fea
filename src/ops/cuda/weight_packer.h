// Brings matrices of any file type into the GPU's layout: bfloat16 rows, converted by all cores into pinned memory
// while the rows before are on their way.
#pragma once
#include "device/cpu/thread_pool.h"
#include "device/cuda/upload.h"
#include "ops/ops.h"

namespace monograph::cuda {

/// A row of a part.
struct SourceRow {
  int part = 0, row = 0;
};
/// Where row `row` of the packed matrix comes from: gate and up rows alternate, so that one thread of the product holds
/// both halves of an output; heads of the qkv matrix are permuted as head_layout.h says; parts are stacked otherwise.
SourceRow source_of(std::span<const MatrixPart> parts, MatrixRole role, int head_dim, int row);

class WeightPacker {
 public:
  explicit WeightPacker(CudaDevice& device);
  /// The packed matrix, bfloat16 [sum of rows, cols]; its bytes may still be under way in stream order, those of the
  /// parts are not needed any more.
  Buffer pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim);

 private:
  CudaDevice& device_;
  cpu::ThreadPool threads_{0};
  Upload upload_;
};

}  // namespace monograph::cuda
