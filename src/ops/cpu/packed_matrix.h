// Weights of the CPU backend: panels of 16 rows, quantised blocks kept as they are and interleaved, so that the 16
// weights of one column lie side by side. Held once; the embedding lookup reads the same panels.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/cpu/weight_memory.h"
#include "ops/ops.h"

namespace monograph::cpu {

inline constexpr int kLanes = 16;

/// 16 outputs (fewer at the end of a segment; the other lanes are 0).
struct Panel {
  DType dtype = DType::kF32;
  int row = 0;     ///< First row of the matrix.
  int n_rows = 0;  ///< 1..16
  std::int64_t offset = 0;
};

/// Bytes of one panel per K block: 16 file blocks, except that Q4_K and Q5_K keep their scales unpacked.
std::int64_t panel_block_bytes(DType dtype);

class CpuPackedMatrix : public PackedMatrix {
 public:
  /// `as_bf16`: dequantise and round every weight to bfloat16. `split_at`: a row where a new panel must begin, or 0.
  CpuPackedMatrix(std::span<const MatrixPart> parts, WeightMemory& memory, bool as_bf16, int split_at = 0);

  int rows() const override { return rows_; }
  int cols() const override { return cols_; }
  std::int64_t bytes() const override { return static_cast<std::int64_t>(bytes_); }

  int n_panels() const { return static_cast<int>(panels_.size()); }
  const Panel& panel(int i) const { return panels_[i]; }
  int panel_of(int row) const;
  const std::byte* data(const Panel& panel) const { return data_.get() + panel.offset; }

 private:
  int rows_ = 0, cols_ = 0;
  std::vector<Panel> panels_;
  std::shared_ptr<std::byte> data_;  // shared with the other matrices of its piece of memory
  std::int64_t bytes_ = 0;
};

/// Weights k_begin..k_begin + n of all lanes, out[k - k_begin][16]; plain loops. k_begin and n are multiples of 32, or
/// reach the last column.
void decode_panel(float* out, const std::byte* panel, DType dtype, int k_begin, int n);
/// All weights of one lane: a row of the matrix.
void decode_lane(float* out, const std::byte* panel, DType dtype, int n, int lane);
/// One weight.
float panel_weight(const std::byte* panel, DType dtype, int k, int lane);

}  // namespace monograph::cpu
