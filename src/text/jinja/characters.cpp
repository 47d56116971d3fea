#include "text/jinja/characters.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

struct ClassRow {
  char32_t first;
  std::uint16_t bits;
};
/// Every `step`th character of [first, last] maps `distance` away.
struct CaseRow {
  char32_t first, last;
  int step, distance;
};
struct SeveralRow {
  char32_t code;
  char32_t to[3];  ///< 0 where there are fewer.
};

#include "text/jinja/character_tables.inc"

enum : std::uint16_t {
  kSpace = 1 << 0,
  kPrintable = 1 << 1,
  kAlphabetic = 1 << 2,
  kNumeric = 1 << 3,
  kDigit = 1 << 4,
  kDecimal = 1 << 5,
  kUpperCase = 1 << 6,
  kLowerCase = 1 << 7,
  kTitleCase = 1 << 8,
  kCased = 1 << 9,           ///< Decides what a sigma behind it becomes.
  kCaseIgnorable = 1 << 10,  ///< Looked through when deciding that.
};

std::uint16_t bits_of(char32_t code) {
  const auto after = [](char32_t wanted, const ClassRow& row) { return wanted < row.first; };
  return std::prev(std::upper_bound(std::begin(kClasses), std::end(kClasses), code, after))->bits;
}

bool has(char32_t code, std::uint16_t bits) { return (bits_of(code) & bits) != 0; }

template <std::size_t N, std::size_t M>
void append_mapped(std::string& out, char32_t code, const CaseRow (&rows)[N], const SeveralRow (&several)[M]) {
  const auto many =
      std::find_if(std::begin(several), std::end(several), [code](const auto& row) { return row.code == code; });
  if (many != std::end(several)) {
    for (const char32_t to : many->to) {
      if (to != 0) append_character(out, to);
    }
    return;
  }
  for (const CaseRow& row : rows) {
    const bool inside = code >= row.first && code <= row.last && (code - row.first) % row.step == 0;
    if (inside) return append_character(out, static_cast<char32_t>(static_cast<int>(code) + row.distance));
  }
  append_character(out, code);
}

void append_upper(std::string& out, char32_t code) {
  if (code >= 0x80) return append_mapped(out, code, kUpper, kUpperSeveral);
  out.push_back(static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code));
}

void append_title(std::string& out, char32_t code) {
  if (code >= 0x80) return append_mapped(out, code, kTitle, kTitleSeveral);
  append_upper(out, code);
}

/// Whether the sigma at `at` ends a word: a cased letter before it, none behind it.
bool is_final_sigma(std::string_view bytes, std::size_t at) {
  std::size_t before = at;
  bool cased = false;
  while (before > 0) {
    before = previous_character(bytes.substr(0, before), before);
    const char32_t code = read_character(bytes, before).code;
    if (has(code, kCaseIgnorable)) continue;
    cased = has(code, kCased);
    break;
  }
  if (!cased) return false;
  for (std::size_t next = at + 2; next < bytes.size();) {
    const Character character = read_character(bytes, next);
    if (!has(character.code, kCaseIgnorable)) return !has(character.code, kCased);
    next += static_cast<std::size_t>(character.length);
  }
  return true;
}

void append_lower(std::string& out, std::string_view bytes, std::size_t at, char32_t code) {
  constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (code == kSigma && is_final_sigma(bytes, at)) return append_character(out, kFinalSigma);
  if (code >= 0x80) return append_mapped(out, code, kLower, kLowerSeveral);
  out.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
}

template <typename Visit>
void for_each_character(std::string_view bytes, Visit visit) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = read_character(bytes, at);
    visit(at, character.code);
    at += static_cast<std::size_t>(character.length);
  }
}

}  // namespace

bool is_space(char32_t code) {
  return code < 0x80 ? (code >= 9 && code <= 13) || (code >= 28 && code <= 32) : has(code, kSpace);
}
bool is_printable(char32_t code) { return has(code, kPrintable); }
bool is_alphabetic(char32_t code) { return has(code, kAlphabetic); }
bool is_numeric(char32_t code) { return has(code, kNumeric); }
bool is_digit(char32_t code) { return has(code, kDigit); }
bool is_decimal(char32_t code) { return has(code, kDecimal); }
bool is_upper(char32_t code) { return has(code, kUpperCase); }
bool is_lower(char32_t code) { return has(code, kLowerCase); }
bool is_title(char32_t code) { return has(code, kTitleCase); }

std::string to_upper(std::string_view bytes) {
  std::string out;
  for_each_character(bytes, [&](std::size_t, char32_t code) { append_upper(out, code); });
  return out;
}

std::string to_lower(std::string_view bytes) {
  std::string out;
  for_each_character(bytes, [&](std::size_t at, char32_t code) { append_lower(out, bytes, at, code); });
  return out;
}

std::string capitalized(std::string_view bytes) {
  std::string out;
  for_each_character(bytes, [&](std::size_t at, char32_t code) {
    if (at == 0)
      append_title(out, code);
    else
      append_lower(out, bytes, at, code);
  });
  return out;
}

std::string titled(std::string_view bytes) {
  std::string out;
  bool inside = false;
  for_each_character(bytes, [&](std::size_t at, char32_t code) {
    if (inside)
      append_lower(out, bytes, at, code);
    else
      append_title(out, code);
    inside = has(code, kUpperCase | kLowerCase | kTitleCase);
  });
  return out;
}

}  // namespace monograph::jinja
