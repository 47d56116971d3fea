#include "base/dequantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace monograph {
namespace {

constexpr std::size_t kBatchBlocks = 1000;

std::uint64_t mix(std::uint64_t x) {
  x = (x + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::vector<std::size_t> half_fields(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// The block stream of tools/make_dequantise_golden.py.
std::vector<std::byte> random_blocks(DType dtype, std::size_t n_blocks) {
  const auto size = static_cast<std::size_t>(block_bytes(dtype));
  std::vector<std::byte> bytes((n_blocks * size + 7) / 8 * 8);
  for (std::size_t word = 0; word < bytes.size() / 8; ++word) {
    const std::uint64_t value = mix(word);
    std::memcpy(bytes.data() + word * 8, &value, 8);
  }
  bytes.resize(n_blocks * size);
  for (std::size_t block = 0; block < n_blocks; ++block)
    for (const std::size_t at : half_fields(dtype)) bytes[block * size + at + 1] &= std::byte{0xbf};
  return bytes;
}

std::uint64_t digest_of(DType dtype, std::size_t n_blocks) {
  const auto bytes = random_blocks(dtype, n_blocks);
  const auto size = static_cast<std::size_t>(block_bytes(dtype));
  const auto per_block = static_cast<std::size_t>(block_weights(dtype));
  std::vector<float> values(kBatchBlocks * per_block);
  std::uint64_t total = 0, at = 0;
  for (std::size_t block = 0; block < n_blocks; block += kBatchBlocks) {
    dequantise(dtype, std::span(bytes).subspan(block * size, kBatchBlocks * size), values);
    for (const float value : values) total += mix(std::bit_cast<std::uint32_t>(value) ^ mix(at++));
  }
  return total;
}

class EachQuantisedType : public ::testing::TestWithParam<DType> {};

TEST_P(EachQuantisedType, EqualsGgufPyOnRandomBlocks) {
  std::ifstream file(MONOGRAPH_SOURCE_DIR "/tests/golden/dequantise.json");
  const auto golden = nlohmann::json::parse(file);
  char digest[17];
  std::snprintf(digest, sizeof digest, "%016llx",
                static_cast<unsigned long long>(digest_of(GetParam(), golden["n_blocks"].get<std::size_t>())));
  EXPECT_EQ(digest, golden["digests"][std::string(to_string(GetParam()))].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Types, EachQuantisedType,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(Dequantise, PlainTypes) {
  const std::uint16_t half[] = {0x3c00, 0xc000}, brain[] = {0x3f80, 0xc000};
  const float single[] = {1.0f, -2.0f};
  using Case = std::pair<DType, std::span<const std::byte>>;
  for (const auto& [dtype, bytes] :
       {Case{DType::kF16, std::as_bytes(std::span(half))}, Case{DType::kBF16, std::as_bytes(std::span(brain))},
        Case{DType::kF32, std::as_bytes(std::span(single))}}) {
    float out[2];
    dequantise(dtype, bytes, out);
    EXPECT_EQ(out[0], 1.0f) << to_string(dtype);
    EXPECT_EQ(out[1], -2.0f) << to_string(dtype);
  }
}

}  // namespace
}  // namespace monograph
