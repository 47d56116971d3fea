#include "base/dequantise.h"

#include <cstdint>
#include <cstring>

#include "base/bf16.h"
#include "base/check.h"

namespace monograph {
namespace {

constexpr int kSmall = 32, kLarge = 256;  // Weights per block.

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
float half(const std::byte* from) { return to_float(f16{load<std::uint16_t>(from)}); }
int byte(const std::byte* from) { return std::to_integer<int>(*from); }
int signed_byte(const std::byte* from) { return load<std::int8_t>(from); }

// Value i of a block of 32: the low halves of 16 bytes, then the high halves.
int nibble(const std::byte* packed, int i) { return i < 16 ? byte(packed + i) & 15 : byte(packed + i - 16) >> 4; }
int fifth_bit(const std::byte* bits, int i) { return static_cast<int>(load<std::uint32_t>(bits) >> i & 1) << 4; }

void expand_f32(const std::byte* in, float* out) { *out = load<float>(in); }
void expand_f16(const std::byte* in, float* out) { *out = half(in); }
void expand_bf16(const std::byte* in, float* out) { *out = to_float(bf16{load<std::uint16_t>(in)}); }

// d, 32 signed bytes.
void expand_q8_0(const std::byte* in, float* out) {
  const float d = half(in);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(signed_byte(in + 2 + i));
}

// d, nibbles about 8.
void expand_q4_0(const std::byte* in, float* out) {
  const float d = half(in);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(nibble(in + 2, i) - 8);
}

// d, m, nibbles.
void expand_q4_1(const std::byte* in, float* out) {
  const float d = half(in), m = half(in + 2);
  for (int i = 0; i < kSmall; ++i) {
    const float product = d * static_cast<float>(nibble(in + 4, i));
    out[i] = product + m;
  }
}

// d, fifth bits, nibbles; about 16.
void expand_q5_0(const std::byte* in, float* out) {
  const float d = half(in);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>((nibble(in + 6, i) | fifth_bit(in + 2, i)) - 16);
}

// d, m, fifth bits, nibbles.
void expand_q5_1(const std::byte* in, float* out) {
  const float d = half(in), m = half(in + 2);
  for (int i = 0; i < kSmall; ++i) {
    const float product = d * static_cast<float>(nibble(in + 8, i) | fifth_bit(in + 4, i));
    out[i] = product + m;
  }
}

// Eight 6-bit scales and minima in 12 bytes: 0 to 3 plain; 4 to 7 in halves, their top two bits above those of 0 to 3.
struct ScaleMin {
  int scale, min;
};
ScaleMin scale_min(const std::byte* packed, int group) {
  if (group < 4) return {byte(packed + group) & 63, byte(packed + 4 + group) & 63};
  const int halves = byte(packed + 4 + group);
  return {(halves & 15) | (byte(packed + group - 4) >> 6 << 4), (halves >> 4) | (byte(packed + group) >> 6 << 4)};
}

// Value i of group `group` of 32: groups 2n and 2n + 1 are the low and high halves of the same 32 bytes.
int group_nibble(const std::byte* packed, int group, int i) {
  return byte(packed + group / 2 * 32 + i) >> (group % 2 * 4) & 15;
}

// d, dmin, scales and minima, nibbles.
void expand_q4_k(const std::byte* in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = scale_min(in + 4, group);
    const float scale = d * static_cast<float>(packed.scale), min = dmin * static_cast<float>(packed.min);
    for (int i = 0; i < 32; ++i) {
      const float product = scale * static_cast<float>(group_nibble(in + 16, group, i));
      *out++ = product - min;
    }
  }
}

// d, dmin, scales and minima, fifth bits (bit `group` of byte i), nibbles.
void expand_q5_k(const std::byte* in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = scale_min(in + 4, group);
    const float scale = d * static_cast<float>(packed.scale), min = dmin * static_cast<float>(packed.min);
    for (int i = 0; i < 32; ++i) {
      const int fifth = (byte(in + 16 + i) >> group & 1) << 4;
      const float product = scale * static_cast<float>(group_nibble(in + 48, group, i) | fifth);
      *out++ = product - min;
    }
  }
}

// Low nibbles (128 bytes), high pairs of bits (64 bytes), 16 signed scales, d. Each half of a block has four groups of
// 32: low nibbles in 64 bytes, two groups per half-byte; high pairs in 32 bytes, one group per pair.
void expand_q6_k(const std::byte* in, float* out) {
  const float d = half(in + 208);
  for (int i = 0; i < kLarge; ++i) {
    const int part = i / 128, group = i % 128 / 32, column = i % 32;
    const int low = byte(in + part * 64 + group % 2 * 32 + column) >> (group / 2 * 4) & 15;
    const int high = byte(in + 128 + part * 32 + column) >> (group * 2) & 3;
    const float scale = d * static_cast<float>(signed_byte(in + 192 + i / 16));
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

using Expand = void (*)(const std::byte*, float*);
Expand expander(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return expand_f32;
    case DType::kF16:
      return expand_f16;
    case DType::kBF16:
      return expand_bf16;
    case DType::kQ8_0:
      return expand_q8_0;
    case DType::kQ4_0:
      return expand_q4_0;
    case DType::kQ4_1:
      return expand_q4_1;
    case DType::kQ5_0:
      return expand_q5_0;
    case DType::kQ5_1:
      return expand_q5_1;
    case DType::kQ4_K:
      return expand_q4_k;
    case DType::kQ5_K:
      return expand_q5_k;
    case DType::kQ6_K:
      return expand_q6_k;
    case DType::kI32:
      break;
  }
  return nullptr;
}

}  // namespace

void dequantise(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const Expand expand = expander(dtype);
  const auto n_values = static_cast<std::int64_t>(out.size());
  CHECK(expand != nullptr && n_values % block_weights(dtype) == 0);
  CHECK(static_cast<std::int64_t>(bytes.size()) == row_bytes(dtype, n_values));
  const auto per_block = static_cast<std::size_t>(block_weights(dtype));
  const auto stride = static_cast<std::size_t>(block_bytes(dtype));
  for (std::size_t block = 0; block < out.size() / per_block; ++block)
    expand(bytes.data() + block * stride, out.data() + block * per_block);
}

}  // namespace monograph
