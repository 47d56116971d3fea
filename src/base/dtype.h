// Element and block types of tensors in files and in memory, with their sizes. (ECOSYSTEM: GGUF block layouts)
#pragma once
#include <cstdint>
#include <string_view>

namespace monograph {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kI32,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

/// Weights per block: 1 for plain types, 32 or 256 for quantised ones.
constexpr int block_weights(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kI32:
      return 1;
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return 256;
    default:
      return 32;
  }
}

/// Bytes per block as stored in files.
constexpr int block_bytes(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kQ8_0:
      return 34;
    case DType::kQ4_0:
      return 18;
    case DType::kQ4_1:
      return 20;
    case DType::kQ5_0:
      return 22;
    case DType::kQ5_1:
      return 24;
    case DType::kQ4_K:
      return 144;
    case DType::kQ5_K:
      return 176;
    case DType::kQ6_K:
      return 210;
  }
  return 0;
}

constexpr bool is_quantised(DType type) { return block_weights(type) > 1; }

/// Bytes of a row of `n` weights; `n` must be a multiple of block_weights(type).
constexpr std::int64_t row_bytes(DType type, std::int64_t n) { return n / block_weights(type) * block_bytes(type); }

constexpr std::string_view to_string(DType type) {
  constexpr std::string_view kNames[] = {"F32",  "F16",  "BF16", "I32",  "Q8_0", "Q4_0",
                                         "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<int>(type)];
}

}  // namespace monograph
