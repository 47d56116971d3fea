#include "ops/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/bf16.h"
#include "base/check.h"
#include "base/dequantise.h"
#include "monograph/error.h"
#include "ops/cpu/panel_formats.h"

namespace monograph::cpu {
namespace {

/// One row of the matrix: which part it lies in, and where.
struct SourceRow {
  const MatrixPart* part;
  const std::byte* bytes;
};

void check_part(const MatrixPart& part, int cols) {
  const std::string type(to_string(part.dtype));
  if (part.dtype == DType::kI32) throw Error(ErrorCode::kUnsupported, "a weight matrix of type " + type);
  if (part.cols != cols)
    throw Error(ErrorCode::kUnreadableFile,
                "stacked matrices: expected " + std::to_string(cols) + " columns, found " + std::to_string(part.cols));
  if (part.cols % block_weights(part.dtype) != 0)
    throw Error(ErrorCode::kUnreadableFile, type + " matrix: expected rows of whole blocks of " +
                                                std::to_string(block_weights(part.dtype)) + ", found " +
                                                std::to_string(part.cols) + " columns");
  const std::int64_t expected = row_bytes(part.dtype, part.cols) * part.rows;
  if (static_cast<std::int64_t>(part.bytes.size()) != expected)
    throw Error(ErrorCode::kUnreadableFile, type + " matrix: expected " + std::to_string(expected) + " bytes, found " +
                                                std::to_string(part.bytes.size()));
  CHECK(part.row_order.empty() || static_cast<int>(part.row_order.size()) == part.rows);
}

std::vector<SourceRow> rows_of(std::span<const MatrixPart> parts) {
  std::vector<SourceRow> rows;
  for (const MatrixPart& part : parts) {
    const std::int64_t stride = row_bytes(part.dtype, part.cols);
    for (int r = 0; r < part.rows; ++r) {
      const int from = part.row_order.empty() ? r : part.row_order[r];
      CHECK(from >= 0 && from < part.rows);
      rows.push_back({&part, part.bytes.data() + from * stride});
    }
  }
  return rows;
}

/// Element i of 16 lanes side by side.
void interleave(std::byte* out, const std::byte* block, int lane, int n, int size) {
  for (int i = 0; i < n; ++i) std::memcpy(out + (i * kLanes + lane) * size, block + i * size, size);
}

/// The 6-bit scales and minima of a Q4_K or Q5_K block, as bytes.
void unpack_scales(std::uint8_t scale[8], std::uint8_t min[8], const std::byte* packed) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(packed);
  for (int i = 0; i < 4; ++i) {
    scale[i] = p[i] & 63;
    min[i] = p[i + 4] & 63;
    scale[i + 4] = static_cast<std::uint8_t>((p[i + 8] & 15) | ((p[i] >> 6) << 4));
    min[i + 4] = static_cast<std::uint8_t>((p[i + 8] >> 4) | ((p[i + 4] >> 6) << 4));
  }
}

void pack_k_scales(std::byte* out, const std::byte* block, int lane) {
  std::uint8_t scale[8], min[8];
  unpack_scales(scale, min, block + 4);
  interleave(out + KPanel::kD, block, lane, 1, 2);
  interleave(out + KPanel::kDMin, block + 2, lane, 1, 2);
  interleave(out + KPanel::kScales, reinterpret_cast<std::byte*>(scale), lane, 8, 1);
  interleave(out + KPanel::kMins, reinterpret_cast<std::byte*>(min), lane, 8, 1);
}

/// One file block into its lane of a panel block.
void pack_block(std::byte* out, const std::byte* block, DType dtype, int lane) {
  switch (dtype) {
    case DType::kF32:
      return interleave(out, block, lane, 1, 4);
    case DType::kF16:
    case DType::kBF16:
      return interleave(out, block, lane, 1, 2);
    case DType::kQ8_0:
      interleave(out, block, lane, 1, 2);
      return interleave(out + Q8Panel::kQ, block + 2, lane, 32, 1);
    case DType::kQ4_0:
      interleave(out, block, lane, 1, 2);
      return interleave(out + Q4_0Panel::kQ, block + 2, lane, 16, 1);
    case DType::kQ4_1:
      interleave(out, block, lane, 2, 2);
      return interleave(out + Q4_1Panel::kQ, block + 4, lane, 16, 1);
    case DType::kQ5_0:
      interleave(out, block, lane, 1, 2);
      interleave(out + Q5_0Panel::kHigh, block + 2, lane, 1, 4);
      return interleave(out + Q5_0Panel::kQ, block + 6, lane, 16, 1);
    case DType::kQ5_1:
      interleave(out, block, lane, 2, 2);
      interleave(out + Q5_1Panel::kHigh, block + 4, lane, 1, 4);
      return interleave(out + Q5_1Panel::kQ, block + 8, lane, 16, 1);
    case DType::kQ4_K:
      pack_k_scales(out, block, lane);
      return interleave(out + Q4KPanel::kQ, block + 16, lane, 128, 1);
    case DType::kQ5_K:
      pack_k_scales(out, block, lane);
      interleave(out + Q5KPanel::kHigh, block + 16, lane, 32, 1);
      return interleave(out + Q5KPanel::kQ, block + 48, lane, 128, 1);
    case DType::kQ6_K:
      interleave(out + Q6KPanel::kD, block + 208, lane, 1, 2);
      interleave(out + Q6KPanel::kScales, block + 192, lane, 16, 1);
      interleave(out + Q6KPanel::kLow, block, lane, 128, 1);
      return interleave(out + Q6KPanel::kHigh, block + 128, lane, 64, 1);
    case DType::kI32:
      break;
  }
  CHECK(false);
}

std::int64_t panel_bytes(DType dtype, int cols) { return cols / block_weights(dtype) * panel_block_bytes(dtype); }

void pack_panel(std::byte* out, std::span<const SourceRow> rows, DType dtype, int cols) {
  const std::int64_t stride = panel_block_bytes(dtype);
  for (std::size_t lane = 0; lane < rows.size(); ++lane)
    for (int b = 0; b < cols / block_weights(dtype); ++b)
      pack_block(out + b * stride, rows[lane].bytes + static_cast<std::int64_t>(b) * block_bytes(dtype), dtype,
                 static_cast<int>(lane));
}

/// The rows' values rounded to bfloat16, whatever their types are.
void pack_panel_as_bf16(std::byte* out, std::span<const SourceRow> rows, int cols) {
  std::vector<float> values(static_cast<std::size_t>(cols));
  for (std::size_t lane = 0; lane < rows.size(); ++lane) {
    const DType dtype = rows[lane].part->dtype;
    dequantise(dtype, {rows[lane].bytes, static_cast<std::size_t>(row_bytes(dtype, cols))}, values);
    for (int k = 0; k < cols; ++k) {
      const bf16 value = to_bf16(values[static_cast<std::size_t>(k)]);
      std::memcpy(out + (static_cast<std::int64_t>(k) * kLanes + static_cast<int>(lane)) * 2, &value, 2);
    }
  }
}

}  // namespace

std::int64_t panel_block_bytes(DType dtype) {
  if (dtype == DType::kQ4_K) return Q4KPanel::kBytes;
  if (dtype == DType::kQ5_K) return Q5KPanel::kBytes;
  return std::int64_t{block_bytes(dtype)} * kLanes;
}

CpuPackedMatrix::CpuPackedMatrix(std::span<const MatrixPart> parts, WeightMemory& memory, bool as_bf16, int split_at) {
  CHECK(!parts.empty());
  cols_ = parts[0].cols;
  for (const MatrixPart& part : parts) check_part(part, cols_);
  const std::vector<SourceRow> rows = rows_of(parts);
  rows_ = static_cast<int>(rows.size());

  const auto dtype_of = [&](int row) { return as_bf16 ? DType::kBF16 : rows[row].part->dtype; };
  for (int row = 0; row < rows_; row += panels_.back().n_rows) {
    Panel panel{dtype_of(row), row, 1, bytes_};
    while (panel.n_rows < kLanes && row + panel.n_rows < rows_ && row + panel.n_rows != split_at &&
           dtype_of(row + panel.n_rows) == panel.dtype)
      ++panel.n_rows;
    panels_.push_back(panel);
    bytes_ += panel_bytes(panel.dtype, cols_);
  }
  data_ = memory.allocate(bytes_);
  for (const Panel& panel : panels_) {
    std::byte* out = data_.get() + panel.offset;
    const auto from = std::span(rows).subspan(panel.row, panel.n_rows);
    std::memset(out, 0, static_cast<std::size_t>(panel_bytes(panel.dtype, cols_)));
    if (as_bf16)
      pack_panel_as_bf16(out, from, cols_);
    else
      pack_panel(out, from, panel.dtype, cols_);
  }
}

int CpuPackedMatrix::panel_of(int row) const {
  const auto after =
      std::upper_bound(panels_.begin(), panels_.end(), row, [](int r, const Panel& panel) { return r < panel.row; });
  return static_cast<int>(after - panels_.begin()) - 1;
}

}  // namespace monograph::cpu
