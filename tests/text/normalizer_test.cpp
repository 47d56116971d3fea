#include "text/normalizer.h"

#include <gtest/gtest.h>

#include <array>

#include "monograph/error.h"

namespace monograph {
namespace {

void put_u32(std::string& out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> 8 * i);
}

// A trie for "A" -> "x", U+0301 -> nothing and "B" + U+0301 -> "y" in 512 units. The children of the root lie at 256,
// the unit of a key's end follows at `end`.
std::string tiny_charsmap() {
  std::array<std::uint32_t, 512> units{};
  const auto link = [&](std::size_t at, std::size_t children, bool ends) {
    units[at] = (units[at] & 0xFF) | static_cast<std::uint32_t>(children ^ at) << 10 | (ends ? 1u << 8 : 0);
  };
  const auto enter = [&](std::size_t at, unsigned char label) { units[at] = label; };
  link(0, 256, false);
  enter(256 ^ 'A', 'A'), link(256 ^ 'A', 16, true), units[16] = 1u << 31 | 0;
  enter(256 ^ 'B', 'B'), link(256 ^ 'B', 32, false);
  enter(32 ^ 0xCC, 0xCC), link(32 ^ 0xCC, 64, false);
  enter(64 ^ 0x81, 0x81), link(64 ^ 0x81, 17, true), units[17] = 1u << 31 | 2;
  enter(256 ^ 0xCC, 0xCC), link(256 ^ 0xCC, 128, false);
  enter(128 ^ 0x81, 0x81), link(128 ^ 0x81, 18, true), units[18] = 1u << 31 | 1;
  std::string blob;
  put_u32(blob, 4 * units.size());
  for (const std::uint32_t unit : units) put_u32(blob, unit);
  return blob + std::string("x\0y\0", 4);
}

TEST(Charsmap, ReplacesClustersByTheShortestEntryTheyBeginWith) {
  const Charsmap map(tiny_charsmap());
  EXPECT_EQ(map.apply("ABAC"), "xBxC");
  EXPECT_EQ(map.apply("B\u0301C"), "yC");
  EXPECT_EQ(map.apply("A\u0301"), "x");              // a small cluster is replaced whole
  EXPECT_EQ(map.apply("A\u0301\u0301\u0301"), "x");  // seven bytes: character by character
  EXPECT_EQ(map.apply("C\u0301\u0301\u0301"), "C");
  EXPECT_EQ(map.apply("\xff"
                      "A\xc3"),
            "\xffx\xc3");
  EXPECT_EQ(map.apply(""), "");
}

TEST(Charsmap, BrokenTablesAreRefusedOrMatchNothing) {
  const std::string good = tiny_charsmap();
  for (const std::string& bad : {std::string(), good.substr(0, 3), good.substr(0, 100), good + "z"})
    EXPECT_THROW(Charsmap{bad}, Error);
  for (std::size_t at = 4; at < good.size(); ++at) {  // any unit may point anywhere
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
    if (damaged.back() == '\0') Charsmap(damaged).apply("AB\u0301A\u0301\u0301\u0301");
  }
}

TEST(Normalizer, StepsComeInOrder) {
  const std::vector<NormalizeStep> steps = {ReplaceText{"``", "\""}, NormalForm::kNfkc, StripSpace{false, true},
                                            ReplaceText{" ", "_", /*runs=*/true}};
  EXPECT_EQ(normalized(steps, " ``a\u3000 \ufb01 b \t\u2003"), " \"a_fi b");
  EXPECT_EQ(normalized({StripSpace{true, false}}, "\u2003 a "), "a ");
  EXPECT_EQ(normalized({NormalForm::kNfd}, "\u00e9"), "e\u0301");
  EXPECT_EQ(normalized({NormalForm::kNfkd}, "\ufdfa").size(), 33u);  // 18 characters
}

TEST(Normalizer, KnowsWhatItCannotChange) {
  EXPECT_FALSE(may_change({}, "e\u0301"));
  EXPECT_FALSE(may_change({NormalForm::kNfc}, "caf\u00e9"));
  EXPECT_TRUE(may_change({NormalForm::kNfc}, "e\u0301"));
  EXPECT_TRUE(may_change({NormalForm::kNfkc}, "\u00b2"));
}

}  // namespace
}  // namespace monograph
