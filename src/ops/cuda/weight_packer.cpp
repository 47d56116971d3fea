#include "ops/cuda/weight_packer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "base/dequantise.h"
#include "ops/cuda/head_layout.h"

namespace monograph::cuda {
namespace {

constexpr std::int64_t kPieceBytes = 16 << 20;
constexpr std::int64_t kGrainBytes = 256 << 10;  // of packed rows, per claim of a thread

std::span<const std::byte> bytes_of(const MatrixPart& part, int row) {
  const std::int64_t bytes = row_bytes(part.dtype, part.cols);
  return part.bytes.subspan(static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
}

/// One row as bfloat16; `values` is scratch for a row.
void write_row(std::uint16_t* out, const MatrixPart& part, int row, std::vector<float>& values) {
  const auto bytes = bytes_of(part, row);
  if (part.dtype == DType::kBF16) {
    std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  values.resize(static_cast<std::size_t>(part.cols));
  dequantise(part.dtype, bytes, values);
  for (int k = 0; k < part.cols; ++k) out[k] = to_bf16(values[static_cast<std::size_t>(k)]).bits;
}

}  // namespace

SourceRow source_of(std::span<const MatrixPart> parts, MatrixRole role, int head_dim, int row) {
  if (role == MatrixRole::kGateUp) {
    int rows = 0;
    for (const MatrixPart& part : parts) rows += part.rows;
    row = row % 2 * (rows / 2) + row / 2;
  } else if (role == MatrixRole::kQkv) {
    row += packed_dimension(row % head_dim, head_dim) - row % head_dim;
  }
  SourceRow from;
  for (; row >= parts[static_cast<std::size_t>(from.part)].rows; ++from.part)
    row -= parts[static_cast<std::size_t>(from.part)].rows;
  const std::vector<int>& order = parts[static_cast<std::size_t>(from.part)].row_order;
  from.row = order.empty() ? row : order[static_cast<std::size_t>(row)];
  return from;
}

WeightPacker::WeightPacker(CudaDevice& device) : device_(device), upload_(device, kPieceBytes) {}

Buffer WeightPacker::pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim) {
  CHECK(role != MatrixRole::kQkv || head_dim > 0);
  const std::int64_t cols = parts.front().cols, row_bytes = 2 * cols;
  int rows = 0;
  for (const MatrixPart& part : parts) rows += part.rows;
  Buffer buffer = device_.allocate(rows * row_bytes);
  const auto rows_per_piece = static_cast<int>(upload_.piece_bytes() / row_bytes);
  CHECK(rows_per_piece >= 1);
  std::vector<std::vector<float>> values(static_cast<std::size_t>(threads_.size()));
  for (int first = 0; first < rows; first += rows_per_piece) {
    const int n = std::min(rows_per_piece, rows - first);
    auto* piece = reinterpret_cast<std::uint16_t*>(upload_.next_piece().data());
    const auto work = [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t r = begin; r < end; ++r) {
        const SourceRow from = source_of(parts, role, head_dim, first + static_cast<int>(r));
        write_row(piece + r * cols, parts[static_cast<std::size_t>(from.part)], from.row,
                  values[static_cast<std::size_t>(thread)]);
      }
    };
    threads_.parallel_for(n, std::max<std::int64_t>(1, kGrainBytes / row_bytes), work);
    upload_.send(buffer.as<std::byte>() + first * row_bytes, n * row_bytes);
  }
  return buffer;
}

}  // namespace monograph::cuda
