#include "text/pretokenize.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace monograph {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const std::string& pre, std::string_view text) {
  std::vector<std::string_view> pieces;
  split_pieces(find_pre_tokenizer(pre)->style, text, pieces);
  return {pieces.begin(), pieces.end()};
}

TEST(PreTokenizer, EachFamilyCutsAsItsPatternSays) {
  struct Case {
    const char* pre;
    const char* text;
    Pieces pieces;
  };
  const Case cases[] = {
      {"gpt-2", "I'm here, it'S  1234 x", {"I", "'m", " here", ",", " it", "'", "S", " ", " 1234", " x"}},
      {"gpt-2", "a\n\n b  ", {"a", "\n\n", " b", "  "}},
      {"gpt-2", "\u00e9t\u00e9 \u4e2d\u6587\u3002", {"\u00e9t\u00e9", " \u4e2d\u6587", "\u3002"}},
      {"smollm", "x12 3", {"x", "1", "2", " ", "3"}},
      {"smollm", "  7", {"  ", "7"}},  // a stretch ends before the digit, so both spaces stay together
      {"llama-bpe", "it'S 12345(foo)\r\n\n x", {"it", "'S", " ", "123", "45", "(foo", ")\r\n\n", " x"}},
      {"llama-bpe", "  \n  y", {"  \n", " ", " y"}},
      {"llama-bpe", "\tx!!\n", {"\tx", "!!\n"}},
      {"llama-bpe", "'\u017Fx", {"'\u017F", "x"}},  // case folding makes the long s an s
      {"qwen2", "a123", {"a", "1", "2", "3"}},
      {"qwen2", "e\u0301a", {"e", "\u0301a"}},
      {"qwen35", "e\u0301a\u0301", {"e\u0301a\u0301"}},
      {"qwen35", "\u0301!", {"\u0301", "!"}},
      {"gpt-2", "\xff\xfe a", {"\xff\xfe", " a"}},
      {"gpt-2", "", {}},
  };
  for (const Case& c : cases) EXPECT_EQ(split(c.pre, c.text), c.pieces) << c.pre << ": " << c.text;
}

TEST(PreTokenizer, PiecesCoverAnyBytes) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  const std::string alphabet = "aZ9' \n\r\t.-_\xc3\xa9\xcc\x81\xe2\x80\x83\xff\x80";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35"}) {
      std::string joined;
      for (const std::string& piece : split(pre, text)) {
        ASSERT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text) << pre << " seed " << seed << " round " << round;
    }
  }
}

TEST(PreTokenizer, UnknownNamesAreUnknown) {
  for (const char* name : {"", "default", "gpt-2 ", "GPT-2", "deepseek-llm", "tekken"})
    EXPECT_FALSE(find_pre_tokenizer(name)) << name;
}

}  // namespace
}  // namespace monograph
