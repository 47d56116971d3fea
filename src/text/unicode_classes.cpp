#include "text/unicode_classes.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace monograph {
namespace {

constexpr CharClass kO = CharClass::kOther;
constexpr CharClass kL = CharClass::kLetter;
constexpr CharClass kM = CharClass::kMark;
constexpr CharClass kN = CharClass::kNumber;
constexpr CharClass kS = CharClass::kSpace;

struct Run {
  char32_t first;
  CharClass what;
};
constexpr Run kRuns[] = {
#include "text/unicode_tables.inc"
};

constexpr std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (std::size_t i = 0; i + 1 < std::size(kRuns) && kRuns[i].first < 128; ++i)
    for (char32_t code = kRuns[i].first; code < std::min<char32_t>(128, kRuns[i + 1].first); ++code)
      classes[code] = kRuns[i].what;
  return classes;
}
constexpr std::array<CharClass, 128> kAscii = ascii_classes();

}  // namespace

CharClass class_of(char32_t code) {
  if (code < 128) return kAscii[code];
  const Run* next = std::upper_bound(std::begin(kRuns), std::end(kRuns), code,
                                     [](char32_t value, const Run& run) { return value < run.first; });
  return code < 0x110000 ? std::prev(next)->what : kO;
}

}  // namespace monograph
