// 20,000 mixed strings and 4,000 lists of ids against llama.cpp's tokenizer and the Hugging Face tokenizers.
// tests/golden/tokenizer holds their checksums; tools/make_tokenizer_golden.py says what they cover.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/text/real/vocabularies.h"
#include "text/detokenizer.h"

namespace monograph {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " is missing");
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
  }
  return table;
}

class Crc {
 public:
  void add(std::string_view bytes) {
    static constexpr auto kTable = crc_table();
    for (const char c : bytes) state_ = kTable[(state_ ^ static_cast<unsigned char>(c)) & 0xFF] ^ state_ >> 8;
  }
  void add(std::uint32_t number) {  // little-endian
    char bytes[4];
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> 8 * i);
    add({bytes, 4});
  }
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = ~0u;
};

std::vector<std::uint32_t> unpack_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(kDigits.find(c));
    n_bits += 6;
    if (n_bits >= 8) bytes += static_cast<char>(bits >> (n_bits -= 8));
  }
  std::vector<std::uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

// What tools/tokenizer_strings.py wrote.
struct Cases {
  std::vector<std::string> strings;
  std::vector<std::vector<std::uint32_t>> lists;
};

Cases read_cases() {
  const std::string all = read_all(std::string(MONOGRAPH_SOURCE_DIR) + "/.cache/test-data/tokenizers/strings.bin");
  std::size_t at = 0;
  const auto number = [&] {
    std::uint32_t value = 0;
    std::memcpy(&value, all.data() + at, 4);
    at += 4;
    return value;
  };
  Cases cases;
  cases.strings.resize(number());
  for (auto& text : cases.strings) {
    const std::uint32_t length = number();
    text = all.substr(at, length);
    at += length;
  }
  cases.lists.resize(number());
  for (auto& list : cases.lists) {
    list.resize(number());
    for (auto& value : list) value = number();
  }
  return cases;
}

std::uint32_t checksum(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Crc crc;
  for (const TokenId id : ids) crc.add(static_cast<std::uint32_t>(id));
  crc.add(0xFFFFFFFFu);
  crc.add(to_valid_utf8(tokenizer.decode(ids, /*with_special=*/true)));
  return crc.value();
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer stream(tokenizer, /*with_special=*/true);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

// Departures are rows [index, Hugging Face's checksum, llama.cpp's] under their reason. Elsewhere both references
// agree, and every group of checksums must be theirs. At a departure we go with the Hugging Face tokenizers, but for
// ids that make broken characters (there we go with llama.cpp, which replaces maximal subparts as web browsers do) and
// for plain text that says a control token (there with the unigram model whose control tokens no text can be).
void expect_like_references(const nlohmann::json& golden, const std::string& what, std::vector<std::uint32_t> sums) {
  for (const auto& [reason, rows] : golden.at(what + "_departures").items()) {
    if (!reason.starts_with("broken bytes") && !reason.starts_with("control text")) continue;
    for (const auto& row : rows) {
      auto& sum = sums.at(row.at(0).get<std::size_t>());
      EXPECT_EQ(sum, row.at(2).get<std::uint32_t>()) << what << " " << row.at(0);
      sum = row.at(1).get<std::uint32_t>();
    }
  }
  const auto expected = unpack_base64(golden.at(what + "s").get<std::string>());
  const auto group = golden.at("group").get<std::size_t>();
  ASSERT_EQ(expected.size(), (sums.size() + group - 1) / group);
  for (std::size_t i = 0, n_wrong = 0; i < expected.size() && n_wrong < 5; ++i) {
    Crc crc;
    for (std::size_t j = i * group; j < std::min(sums.size(), (i + 1) * group); ++j) crc.add(sums[j]);
    if (crc.value() == expected[i]) continue;
    ++n_wrong;
    ADD_FAILURE() << "one of the " << what << "s " << i * group << " to " << (i + 1) * group - 1 << " differs";
  }
}

// `scores`, and behind them what `all` has there; they must agree to the precision of a float.
std::vector<double> padded(std::vector<double> scores, const std::vector<double>& all) {
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(static_cast<float>(scores[i]), static_cast<float>(all[i]));
  scores.insert(scores.end(), all.begin() + static_cast<std::ptrdiff_t>(scores.size()), all.end());
  return scores;
}

class Golden : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  TokenizerSpec json_spec() const {
    const std::string folder = std::string(MONOGRAPH_SOURCE_DIR) + "/.cache/test-data/tokenizers/";
    return Tokenizer::spec_from_json(read_all(folder + name() + ".json"), "");
  }
  Tokenizer tokenizer() const {
    const bool gguf = std::string(std::get<1>(GetParam())) == "gguf";
    TokenizerSpec spec = gguf ? vocabulary_spec(name()) : json_spec();
    // Sums that are equal but for rounding are common ("////" and "/" in any order), and the decimal scores of the
    // reference round otherwise than the file's floats.
    if (gguf && spec.model == TokenizerModel::kUnigram) spec.scores = padded(json_spec().scores, spec.scores);
    return Tokenizer(std::move(spec));
  }
};

TEST_P(Golden, SameIdsAndTextAsTheReferences) {
  const auto golden = nlohmann::json::parse(
      read_all(std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/tokenizer/" + name() + ".json"));
  const Cases cases = read_cases();
  ASSERT_EQ(cases.strings.size(), 20'000u);
  const Tokenizer tokenizer = this->tokenizer();
  std::vector<std::uint32_t> string_sums, list_sums;
  for (std::size_t i = 0; i < cases.strings.size(); ++i) {
    const auto ids = tokenizer.encode(cases.strings[i], {.add_special = false, .parse_special = i % 2 == 0});
    string_sums.push_back(checksum(tokenizer, ids));
    ASSERT_EQ(streamed(tokenizer, ids), to_valid_utf8(tokenizer.decode(ids, true))) << cases.strings[i];
  }
  const auto vocab_size = golden.value("vocab_size", tokenizer.vocab_size());  // a GGUF file may add unused tokens
  for (const auto& list : cases.lists) {
    std::vector<TokenId> ids;
    for (const std::uint32_t number : list) ids.push_back(static_cast<TokenId>(number % vocab_size));
    list_sums.push_back(checksum(tokenizer, ids));
    ASSERT_EQ(streamed(tokenizer, ids), to_valid_utf8(tokenizer.decode(ids, true)));
  }
  expect_like_references(golden, "string", std::move(string_sums));
  expect_like_references(golden, "list", std::move(list_sums));
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Golden,
                         testing::Combine(testing::Values("smollm2", "llama-bpe", "qwen2", "gpt-2", "starcoder",
                                                          "llama-spm"),
                                          testing::Values("gguf", "json")),
                         [](const auto& info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(Unigram, Golden,
                         testing::Values(std::tuple("nomic-bert-moe", "gguf"), std::tuple("nomic-bert-moe", "json"),
                                         std::tuple("unigram-bytes", "json")),
                         [](const auto& info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace monograph
