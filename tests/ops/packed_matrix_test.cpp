#include "ops/cpu/packed_matrix.h"

#include <gtest/gtest.h>

#include "base/math.h"
#include "monograph/error.h"
#include "tests/ops/support/step.h"

namespace monograph::cpu {
namespace {

using test::dequantised;
using test::kWeightTypes;
using test::random_blocks;

WeightMemory memory;

std::vector<float> row_of(const CpuPackedMatrix& matrix, int row) {
  std::vector<float> values(matrix.cols());
  const Panel& panel = matrix.panel(matrix.panel_of(row));
  decode_lane(values.data(), matrix.data(panel), panel.dtype, matrix.cols(), row - panel.row);
  return values;
}

TEST(PackedMatrix, HoldsEveryTypesExactValues) {
  std::mt19937_64 random(test::seed());
  for (DType dtype : kWeightTypes) {
    const int rows = 101, cols = 1024;
    const auto bytes = random_blocks(random, dtype, rows, cols);
    const auto expected = dequantised(dtype, bytes, rows, cols);
    const MatrixPart part{dtype, rows, cols, bytes, {}};
    const CpuPackedMatrix matrix({&part, 1}, memory, false);
    for (int r = 0; r < rows; ++r) {
      const auto values = row_of(matrix, r);
      for (int k = 0; k < cols; ++k)
        ASSERT_EQ(bits_of(values[k]), bits_of(expected[std::size_t(r) * cols + k]))
            << to_string(dtype) << " row " << r << " k " << k;
    }
  }
}

TEST(PackedMatrix, TakesLittleMoreThanTheFile) {
  std::mt19937_64 random(test::seed());
  for (DType dtype : kWeightTypes) {
    const auto bytes = random_blocks(random, dtype, 64, 512);
    const MatrixPart part{dtype, 64, 512, bytes, {}};
    const CpuPackedMatrix matrix({&part, 1}, memory, false);
    EXPECT_LE(static_cast<double>(matrix.bytes()), 1.03 * static_cast<double>(bytes.size())) << to_string(dtype);
  }
}

TEST(PackedMatrix, StacksPartsOfAnyTypeAndHeightInAnyOrder) {
  std::mt19937_64 random(test::seed());
  const int cols = 256;
  const auto a = random_blocks(random, DType::kQ4_1, 20, cols), b = random_blocks(random, DType::kQ4_1, 9, cols),
             c = random_blocks(random, DType::kF16, 5, cols);
  MatrixPart parts[] = {{DType::kQ4_1, 20, cols, a, {}}, {DType::kQ4_1, 9, cols, b, {}}, {DType::kF16, 5, cols, c, {}}};
  parts[1].row_order = {8, 7, 6, 5, 4, 3, 2, 1, 0};
  const CpuPackedMatrix matrix(parts, memory, false, 17);
  ASSERT_EQ(matrix.rows(), 34);
  const auto va = dequantised(DType::kQ4_1, a, 20, cols), vb = dequantised(DType::kQ4_1, b, 9, cols),
             vc = dequantised(DType::kF16, c, 5, cols);
  for (int r = 0; r < 34; ++r) {
    const float* expected = r < 20   ? &va[std::size_t(r) * cols]
                            : r < 29 ? &vb[std::size_t(28 - r) * cols]
                                     : &vc[std::size_t(r - 29) * cols];
    EXPECT_EQ(row_of(matrix, r), std::vector<float>(expected, expected + cols)) << "row " << r;
  }
  bool begins_there = false;
  for (int p = 0; p < matrix.n_panels(); ++p) begins_there |= matrix.panel(p).row == 17;
  EXPECT_TRUE(begins_there) << "no panel begins at split_at";
}

TEST(PackedMatrix, RoundsToBfloat16InThatMode) {
  std::mt19937_64 random(test::seed());
  const auto bytes = random_blocks(random, DType::kQ6_K, 18, 256);
  const MatrixPart part{DType::kQ6_K, 18, 256, bytes, {}};
  const CpuPackedMatrix matrix({&part, 1}, memory, true);
  const auto values = dequantised(DType::kQ6_K, bytes, 18, 256);
  for (int r = 0; r < 18; ++r)
    for (int k = 0; k < 256; ++k) ASSERT_EQ(row_of(matrix, r)[k], to_float(to_bf16(values[std::size_t(r) * 256 + k])));
}

TEST(PackedMatrix, RefusesWhatItCannotPack) {
  const std::vector<std::byte> bytes(4 * 32);
  const auto code_of = [](const MatrixPart& part) {
    try {
      CpuPackedMatrix matrix({&part, 1}, memory, false);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code_of({DType::kI32, 1, 32, bytes, {}}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of({DType::kF32, 2, 32, bytes, {}}), ErrorCode::kUnreadableFile);
  EXPECT_EQ(code_of({DType::kQ4_0, 1, 40, bytes, {}}), ErrorCode::kUnreadableFile);
}

}  // namespace
}  // namespace monograph::cpu
