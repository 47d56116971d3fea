// The .inp/.out cases that come with each vocabulary: texts, and the ids that their authors' tokenizers gave.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/text/real/vocabularies.h"

namespace monograph {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " is missing: run tools/fetch_test_data.py");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_texts(const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n", all = read_all(path);
  std::vector<std::string> texts;
  for (std::size_t at = 0;;) {
    const std::size_t end = all.find(separator, at);
    if (end == std::string::npos) break;
    texts.push_back(all.substr(at, end - at));
    at = end + separator.size();
  }
  return texts;
}

std::vector<std::vector<TokenId>> read_ids(const std::string& path) {
  std::istringstream lines(read_all(path));
  std::vector<std::vector<TokenId>> out;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    out.emplace_back(std::istream_iterator<TokenId>(words), std::istream_iterator<TokenId>());
  }
  return out;
}

class PublishedCases : public testing::TestWithParam<const char*> {};

TEST_P(PublishedCases, GiveTheirIds) {
  const std::string path = vocabulary_path(GetParam());
  const auto texts = read_texts(path + ".inp");
  const auto expected = read_ids(path + ".out");
  ASSERT_GE(texts.size(), 40u);
  ASSERT_EQ(texts.size(), expected.size());
  const Tokenizer tokenizer(vocabulary_spec(GetParam()));
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i], {.add_special = false}), expected[i]) << "case " << i << ": " << texts[i];
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, PublishedCases,
                         testing::Values("gpt-2", "llama-bpe", "qwen2", "qwen35", "starcoder", "refact", "command-r",
                                         "mpt", "llama-spm", "phi-3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace monograph
