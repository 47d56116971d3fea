#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer.h"
#include "text/unicode_classes.h"
#include "text/unicode_forms.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

TEST(Unicode, Classes) {
  EXPECT_EQ(class_of('a'), CharClass::kLetter);
  EXPECT_EQ(class_of('7'), CharClass::kNumber);
  EXPECT_EQ(class_of('_'), CharClass::kOther);
  EXPECT_EQ(class_of(0x1C), CharClass::kOther);  // a separator to Python, no white space to Unicode
  EXPECT_EQ(class_of(0x85), CharClass::kSpace);
  EXPECT_EQ(class_of(0x3000), CharClass::kSpace);
  EXPECT_EQ(class_of(0x200B), CharClass::kOther);
  EXPECT_EQ(class_of(0x301), CharClass::kMark);
  EXPECT_EQ(class_of(0x4E2D), CharClass::kLetter);
  EXPECT_EQ(class_of(0x2167), CharClass::kNumber);  // a letter-like number
  EXPECT_EQ(class_of(0xBD), CharClass::kNumber);
  EXPECT_EQ(class_of(0x1C89), CharClass::kLetter);  // new in Unicode 16
  EXPECT_EQ(class_of(0x10FFFF), CharClass::kOther);
  EXPECT_EQ(class_of(0x110000), CharClass::kOther);
  EXPECT_EQ(class_of(0xFFFFFFFF), CharClass::kOther);
}

// How many characters of each class Unicode 16.0 has: the sizes that the Hugging Face tokenizers' patterns match.
TEST(Unicode, ClassSizes) {
  int counts[5] = {};
  for (char32_t code = 0; code < 0x110000; ++code) ++counts[static_cast<int>(class_of(code))];
  EXPECT_EQ(counts[static_cast<int>(CharClass::kLetter)], 141'028);
  EXPECT_EQ(counts[static_cast<int>(CharClass::kNumber)], 1'911);
  EXPECT_EQ(counts[static_cast<int>(CharClass::kMark)], 2'501);
  EXPECT_EQ(counts[static_cast<int>(CharClass::kSpace)], 25);
}

TEST(Unicode, EveryCharacterRoundTrips) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char c = utf8_char_at(text, 0);
    ASSERT_TRUE(c.well_formed && c.code == code && c.length == static_cast<int>(text.size()))
        << static_cast<unsigned>(code);
    for (std::size_t n = 1; n < text.size(); ++n) {
      ASSERT_TRUE(utf8_char_at(text.substr(0, n), 0).cut_short);
      ASSERT_EQ(utf8_settled_length("x" + text.substr(0, n)), 1u);
    }
  }
}

// Settling a prefix early and the rest later must give what the whole gives.
TEST(Unicode, SettledPrefixesNeverChange) {
  const unsigned seed = 3;
  std::mt19937 random(seed);
  for (int round = 0; round < 50'000; ++round) {
    std::string text(random() % 8, ' ');
    for (char& c : text) c = "a\xf0\x9f\x98\x80\xc3\xed\xa0\xe2\x82\xff"[random() % 11];
    const std::size_t settled = utf8_settled_length(text);
    EXPECT_LE(text.size() - settled, 3u);
    EXPECT_EQ(to_valid_utf8(text.substr(0, settled)) + to_valid_utf8(text.substr(settled)), to_valid_utf8(text))
        << "seed " << seed << " round " << round;
  }
}

TEST(Unicode, Nfc) {
  EXPECT_EQ(to_form(NormalForm::kNfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(to_form(NormalForm::kNfc, "\u212b"), "\u00c5");
  EXPECT_EQ(to_form(NormalForm::kNfc, "q\u0307\u0323"), "q\u0323\u0307");  // marks in order of their class
  EXPECT_EQ(to_form(NormalForm::kNfc, "\u1100\u1161\u11a8"), "\uac01");    // Hangul
  EXPECT_EQ(to_form(NormalForm::kNfc, "\u0958"), "\u0915\u093c");          // excluded from composition
  EXPECT_EQ(to_form(NormalForm::kNfc, "e\xff\u0301"), "e\xff\u0301");      // an ill-formed byte keeps them apart
  EXPECT_TRUE(is_surely_nfc("caf\u00e9"));
  EXPECT_FALSE(is_surely_nfc("e\u0301"));
}

TEST(Unicode, NfcOfNfcIsItself) {
  const unsigned seed = 4;
  std::mt19937 random(seed);
  const char32_t pool[] = {'a', 'e', 0x301, 0x316, 0x327, 0x1100, 0x1161, 0x11A8, 0x915, 0x93C, 0x212B, 0x1E9B, 0x323};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (unsigned i = 0; i < random() % 10; ++i) append_utf8(text, pool[random() % std::size(pool)]);
    const std::string once = to_form(NormalForm::kNfc, text);
    EXPECT_EQ(to_form(NormalForm::kNfc, once), once) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace monograph
