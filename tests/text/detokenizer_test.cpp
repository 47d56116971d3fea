#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "monograph/error.h"
#include "tests/text/support/tiny_vocab.h"

namespace monograph {
namespace {

// Everything that a matcher lets through when the text comes in these parts.
std::string through(StopMatcher& matcher, const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += matcher.push(part);
  return out + matcher.finish();
}

TEST(Detokenizer, TK01_CharacterSplitOverTokensComesInOnePiece) {
  const Tokenizer tokenizer(tiny_byte_spec());
  Detokenizer stream(tokenizer);
  std::vector<std::string> deltas;
  for (const unsigned char byte : {0xF0, 0x9F, 0x98, 0x80}) deltas.push_back(stream.push(byte_id(tokenizer, byte)));
  EXPECT_EQ(deltas, (std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80"}));
  EXPECT_EQ(stream.finish(), "");
}

TEST(Detokenizer, TK03_CutInsideACharacterEndsInValidText) {
  const Tokenizer tokenizer(tiny_byte_spec());
  const std::string emoji = "\xF0\x9F\x98\x80";
  for (int n = 1; n <= 3; ++n) {
    Detokenizer stream(tokenizer);
    std::string joined;
    for (int i = 0; i < n; ++i) joined += stream.push(byte_id(tokenizer, static_cast<unsigned char>(emoji[i])));
    EXPECT_EQ(joined, "");
    EXPECT_EQ(stream.finish(), "\uFFFD");
  }
}

TEST(Detokenizer, TK05_MetaspacePiecesKeepTheirSpaces) {
  const Tokenizer tokenizer(tiny_spm_spec());
  const std::vector<TokenId> ids = {spm_id(tokenizer, "\u2581a"), spm_id(tokenizer, "\u2581b"), spm_id(tokenizer, "."),
                                    spm_id(tokenizer, "\u2581c")};
  Detokenizer stream(tokenizer);
  std::string joined;
  for (const TokenId id : ids) joined += stream.push(id);
  joined += stream.finish();
  EXPECT_EQ(joined, "a b. c");
  EXPECT_EQ(joined, tokenizer.decode(ids));
}

TEST(StopMatcher, ST01_NothingOfAStopSpreadOverTokensIsSent) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABC"), "ABC");
  for (const char* part : {"DEF", "G", "HI"}) EXPECT_EQ(matcher.push(part), "");
  EXPECT_EQ(matcher.push("J"), "");
  EXPECT_EQ(matcher.matched(), 0);
  EXPECT_EQ(matcher.push("KL"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, ST01_WhatWasNoStopComesLater) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("DEFDEF"), "DEF");
  EXPECT_EQ(matcher.push("x"), "DEFx");
  EXPECT_EQ(matcher.push("DE"), "");
  EXPECT_EQ(matcher.finish(), "DE");
  EXPECT_EQ(matcher.matched(), -1);
}

TEST(StopMatcher, ST03_CutsBeforeTheFirstFullMatchOfNestedStops) {
  for (const auto& stops : {std::vector<std::string>{">>> UPD", ">>> UPD\n"}, {">>> UPD\n", ">>> UPD"}}) {
    StopMatcher matcher(stops);
    EXPECT_EQ(through(matcher, {"text ", ">>>", " UPD", "\n", "more"}), "text ");
    EXPECT_EQ(stops[matcher.matched()], ">>> UPD");
  }
}

TEST(StopMatcher, ST11_MatchesOnTextNotOnIds) {
  StopMatcher word({"world"});
  EXPECT_EQ(through(word, {"Hello", " wor", "ld!"}), "Hello ");
  StopMatcher marker({"<|im_end|>"});
  EXPECT_EQ(through(marker, {"bye", "<|im", "_end|>", "x"}), "bye");
}

TEST(StopMatcher, ST13_ShownStopComesOnce) {
  StopMatcher shown({"<|im_end|>"}, /*include_stop=*/true);
  EXPECT_EQ(through(shown, {"bye", "<|im_end|>", "<|im_end|>"}), "bye<|im_end|>");
  StopMatcher hidden({"<|im_end|>"});
  EXPECT_EQ(through(hidden, {"bye", "<|im_end|>", "<|im_end|>"}), "bye");
}

TEST(StopMatcher, TK20_StopsAreTakenAsGiven) {
  for (const std::string stop : {"終わり", "\\n", "é"}) {
    StopMatcher matcher({stop});
    EXPECT_EQ(through(matcher, {"a\n", "è" + stop + "b"}), "a\nè");
    EXPECT_EQ(matcher.matched(), 0);
  }
}

TEST(StopMatcher, RefusesAnEmptyStop) { EXPECT_THROW(StopMatcher({"a", ""}), Error); }

// Where the first complete stop ends, the longest of those that end there, by looking at every place.
std::pair<std::string, int> cut_slowly(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const bool here = end >= stops[i].size() && text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0;
      if (here && (best < 0 || stops[i].size() > stops[best].size())) best = static_cast<int>(i);
    }
    if (best >= 0) return {text.substr(0, end - stops[best].size()), best};
  }
  return {text, -1};
}

TEST(StopMatcher, AnyCuttingGivesWhatASlowSearchGives) {
  const unsigned seed = 20261201;
  std::mt19937 random(seed);
  const auto word = [&](int max) {
    std::string out(1 + random() % max, 'a');
    for (char& c : out) c = static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops, parts;
    for (unsigned i = 0; i <= random() % 3; ++i) stops.push_back(word(5));
    for (int i = 0; i < 6; ++i) parts.push_back(word(4));
    std::string text;
    for (const auto& part : parts) text += part;
    StopMatcher matcher(stops);
    const auto [expected, index] = cut_slowly(text, stops);
    EXPECT_EQ(through(matcher, parts), expected) << "seed " << seed << " round " << round;
    EXPECT_EQ(matcher.matched(), index) << "seed " << seed << " round " << round;
  }
}

TEST(Detokenizer, TK06_RandomIdsStreamLikeOneShot) {
  const unsigned seed = 6;
  std::mt19937 random(seed);
  const Tokenizer tokenizers[] = {Tokenizer(tiny_byte_spec()), Tokenizer(tiny_spm_spec())};
  for (int round = 0; round < 20000; ++round) {
    const Tokenizer& tokenizer = tokenizers[round % 2];
    const bool with_special = random() % 2;
    std::vector<TokenId> ids(random() % 12);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % (tokenizer.vocab_size() + 3)) - 1;
    Detokenizer stream(tokenizer, with_special);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string delta = stream.push(id);
      EXPECT_EQ(to_valid_utf8(delta), delta);
      joined += delta;
    }
    joined += stream.finish();
    ASSERT_EQ(joined, to_valid_utf8(tokenizer.decode(ids, with_special))) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace monograph
