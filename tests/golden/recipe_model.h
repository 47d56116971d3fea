// A llama of width 256 whose stored bytes follow from a rule, for every tensor type: no file needs to be committed.
// tools/recipe_model.py builds the same weights, and tests/golden/logits/recipe-*.golden holds what transformers makes
// of them. The rule: tensor t (in file order, from 0) takes its bytes from the words mix((t + 1) << 32 | i) of
// splitmix64, i = 0, 1, ...; norms are 1 + (byte - 128) / 512; weights of plain types (byte - 128) / 1024; quantised
// blocks take the bytes as they are, but the high 7 bits of their half-precision fields are fixed, so that weights have
// a deviation of about 0.07.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/dtype.h"
#include "tests/model/support/gguf_bytes.h"

namespace monograph::golden {

inline constexpr std::array kRecipeTypes = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                                            DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

inline std::uint64_t recipe_word(std::uint64_t x) {
  x = (x + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline std::string recipe_bytes(std::uint64_t tensor, std::size_t n) {
  std::string bytes((n + 7) / 8 * 8, '\0');
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    const std::uint64_t word = recipe_word((tensor + 1) << 32 | i);
    std::memcpy(bytes.data() + i * 8, &word, 8);
  }
  bytes.resize(n);
  return bytes;
}

/// The type's number in GGUF, and (place in the block, high byte) of its half-precision fields.
struct RecipeType {
  std::uint32_t number;
  std::vector<std::pair<std::size_t, unsigned>> halves;
};
inline RecipeType recipe_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {0, {}};
    case DType::kF16:
      return {1, {}};
    case DType::kBF16:
      return {30, {}};
    case DType::kQ8_0:
      return {8, {{0, 0x14}}};
    case DType::kQ4_0:
      return {2, {{0, 0x24}}};
    case DType::kQ4_1:
      return {3, {{0, 0x24}, {2, 0xb0}}};
    case DType::kQ5_0:
      return {6, {{0, 0x20}}};
    case DType::kQ5_1:
      return {7, {{0, 0x20}, {2, 0xb0}}};
    case DType::kQ4_K:
      return {12, {{0, 0x0c}, {2, 0x18}}};
    case DType::kQ5_K:
      return {13, {{0, 0x08}, {2, 0x18}}};
    case DType::kQ6_K:
      return {14, {{208, 0x04}}};
    default:
      throw std::invalid_argument("no recipe for this type");
  }
}

/// (byte - offset) / divisor, as `dtype` stores it; exact in F32, F16 and BF16.
inline std::string recipe_plain(DType dtype, const std::string& bytes, float mean, float divisor) {
  std::string out;
  for (const char c : bytes) {
    const float value = mean + static_cast<float>(static_cast<unsigned char>(c) - 128) / divisor;
    if (dtype == DType::kF32)
      out += files::raw(value);
    else if (dtype == DType::kBF16)
      out += files::raw(to_bf16(value).bits);
    else {
      // Exact: at most 8 significant bits and an exponent from -10 to -3.
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const auto exponent = static_cast<int>(bits >> 23 & 255) - 112;
      const auto half =
          value == 0.0f ? 0u : (bits >> 16 & 0x8000u) | static_cast<unsigned>(exponent) << 10 | (bits >> 13 & 0x3ffu);
      out += files::raw(static_cast<std::uint16_t>(half));
    }
  }
  return out;
}

inline std::string recipe_tensor(DType dtype, std::uint64_t tensor, std::int64_t n_values) {
  const auto n_bytes = static_cast<std::size_t>(row_bytes(dtype, n_values));
  if (!is_quantised(dtype))
    return recipe_plain(dtype, recipe_bytes(tensor, static_cast<std::size_t>(n_values)), 0.0f, 1024.0f);
  std::string bytes = recipe_bytes(tensor, n_bytes);
  const auto size = static_cast<std::size_t>(block_bytes(dtype));
  for (std::size_t block = 0; block < n_bytes; block += size)
    for (const auto& [at, high] : recipe_type(dtype).halves) {
      char& byte = bytes[block + at + 1];
      byte = static_cast<char>(high | (static_cast<unsigned char>(byte) & 1u));
    }
  return bytes;
}

/// The whole file.
inline std::string recipe_model(DType dtype) {
  files::GgufBuilder file;
  file.text("general.architecture", "llama").text("general.name", "recipe").number("llama.block_count", 1);
  file.number("llama.embedding_length", 256)
      .number("llama.feed_forward_length", 256)
      .number("llama.context_length", 512);
  file.number("llama.attention.head_count", 4).number("llama.attention.head_count_kv", 1);
  file.real("llama.attention.layer_norm_rms_epsilon", 1e-5f).real("llama.rope.freq_base", 10000.0f);
  std::string data;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> dims) {
    const bool is_norm = dims.size() == 1;
    const auto n_values = static_cast<std::int64_t>(is_norm ? dims[0] : dims[0] * dims[1]);
    const auto index = file.tensors.size();
    const std::string bytes =
        is_norm ? recipe_plain(DType::kF32, recipe_bytes(index, static_cast<std::size_t>(n_values)), 1.0f, 512.0f)
                : recipe_tensor(dtype, index, n_values);
    file.tensor(name, std::move(dims), is_norm ? 0 : recipe_type(dtype).number, bytes.size());
    data.resize(file.tensors.back().offset);
    data += bytes;
  };
  add("token_embd.weight", {256, 288});
  add("blk.0.attn_norm.weight", {256});
  add("blk.0.attn_q.weight", {256, 256});
  add("blk.0.attn_k.weight", {256, 64});
  add("blk.0.attn_v.weight", {256, 64});
  add("blk.0.attn_output.weight", {256, 256});
  add("blk.0.ffn_norm.weight", {256});
  add("blk.0.ffn_gate.weight", {256, 256});
  add("blk.0.ffn_up.weight", {256, 256});
  add("blk.0.ffn_down.weight", {256, 256});
  add("output_norm.weight", {256});
  return file.header() + data;
}

}  // namespace monograph::golden
