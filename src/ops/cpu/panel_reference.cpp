// Dequantisation in plain loops. Products and sums are rounded one by one, as gguf-py rounds them.
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"
#include "ops/cpu/packed_matrix.h"
#include "ops/cpu/panel_formats.h"

namespace monograph::cpu {
namespace {

template <typename T>
T element(const std::byte* base, int i, int lane) {
  T value;
  std::memcpy(&value, base + (i * kLanes + lane) * static_cast<int>(sizeof(T)), sizeof(T));
  return value;
}
float half(const std::byte* base, int lane) { return to_float(element<f16>(base, 0, lane)); }

/// The nibble of weight k (0..31) among 16 bytes.
int nibble(const std::byte* base, int k, int lane) {
  const int byte = element<std::uint8_t>(base, k % 16, lane);
  return k < 16 ? byte & 15 : byte >> 4;
}
int fifth_bit(const std::byte* base, int k, int lane) {
  return static_cast<int>((element<std::uint32_t>(base, 0, lane) >> k) & 1u) << 4;
}

float k_value(const std::byte* b, int sub, int q, int lane) {
  const float scale = half(b + KPanel::kD, lane) * element<std::uint8_t>(b + KPanel::kScales, sub, lane);
  const float min = half(b + KPanel::kDMin, lane) * element<std::uint8_t>(b + KPanel::kMins, sub, lane);
  const float product = scale * static_cast<float>(q);
  return product - min;
}

float q4_k(const std::byte* b, int k, int lane) {
  const int sub = k / 32;
  const int byte = element<std::uint8_t>(b + Q4KPanel::kQ, sub / 2 * 32 + k % 32, lane);
  return k_value(b, sub, sub % 2 == 0 ? byte & 15 : byte >> 4, lane);
}

float q5_k(const std::byte* b, int k, int lane) {
  const int sub = k / 32;
  const int byte = element<std::uint8_t>(b + Q5KPanel::kQ, sub / 2 * 32 + k % 32, lane);
  const int high = element<std::uint8_t>(b + Q5KPanel::kHigh, k % 32, lane) >> sub & 1;
  return k_value(b, sub, (sub % 2 == 0 ? byte & 15 : byte >> 4) | high << 4, lane);
}

float q6_k(const std::byte* b, int k, int lane) {
  const int half_block = k / 128, part = k / 32 % 4, j = k % 32;
  const int low_byte = element<std::uint8_t>(b + Q6KPanel::kLow, half_block * 64 + (part % 2) * 32 + j, lane);
  const int low = part < 2 ? low_byte & 15 : low_byte >> 4;
  const int high = element<std::uint8_t>(b + Q6KPanel::kHigh, half_block * 32 + j, lane) >> (2 * part) & 3;
  const float scale = half(b + Q6KPanel::kD, lane) * element<std::int8_t>(b + Q6KPanel::kScales, k / 16, lane);
  return scale * static_cast<float>((low | high << 4) - 32);
}

/// Weight k of one block.
float block_weight(const std::byte* b, DType dtype, int k, int lane) {
  switch (dtype) {
    case DType::kF32:
      return element<float>(b, 0, lane);
    case DType::kF16:
      return half(b, lane);
    case DType::kBF16:
      return to_float(element<bf16>(b, 0, lane));
    case DType::kQ8_0:
      return half(b, lane) * element<std::int8_t>(b + Q8Panel::kQ, k, lane);
    case DType::kQ4_0:
      return half(b, lane) * static_cast<float>(nibble(b + Q4_0Panel::kQ, k, lane) - 8);
    case DType::kQ4_1: {
      const float product = half(b + Q4_1Panel::kD, lane) * static_cast<float>(nibble(b + Q4_1Panel::kQ, k, lane));
      return product + half(b + Q4_1Panel::kM, lane);
    }
    case DType::kQ5_0: {
      const int q = nibble(b + Q5_0Panel::kQ, k, lane) | fifth_bit(b + Q5_0Panel::kHigh, k, lane);
      return half(b, lane) * static_cast<float>(q - 16);
    }
    case DType::kQ5_1: {
      const int q = nibble(b + Q5_1Panel::kQ, k, lane) | fifth_bit(b + Q5_1Panel::kHigh, k, lane);
      const float product = half(b + Q5_1Panel::kD, lane) * static_cast<float>(q);
      return product + half(b + Q5_1Panel::kM, lane);
    }
    case DType::kQ4_K:
      return q4_k(b, k, lane);
    case DType::kQ5_K:
      return q5_k(b, k, lane);
    case DType::kQ6_K:
      return q6_k(b, k, lane);
    case DType::kI32:
      break;
  }
  CHECK(false);
  return 0;
}

}  // namespace

float panel_weight(const std::byte* panel, DType dtype, int k, int lane) {
  const int weights = block_weights(dtype);
  return block_weight(panel + k / weights * panel_block_bytes(dtype), dtype, k % weights, lane);
}

void decode_panel(float* out, const std::byte* panel, DType dtype, int k_begin, int n) {
  for (int k = 0; k < n; ++k)
    for (int lane = 0; lane < kLanes; ++lane) out[k * kLanes + lane] = panel_weight(panel, dtype, k_begin + k, lane);
}

void decode_lane(float* out, const std::byte* panel, DType dtype, int n, int lane) {
  for (int k = 0; k < n; ++k) out[k] = panel_weight(panel, dtype, k, lane);
}

}  // namespace monograph::cpu
