#include "text/jinja/parse_number.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "text/jinja/failure.h"

namespace monograph::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// Without underscores between digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 36 && digit_value(text[i + 1]) < 36;
    if (!between) return std::nullopt;
  }
  return out;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  return out;
}

}  // namespace

std::optional<Int> parse_int(std::string_view text, Int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
    base = 10;
  }
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  Int value = 0;
  bool overflow = false;
  for (const char c : *digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (!overflow) value = value * base + digit;
    overflow |= value > kMaxInt;
  }
  if (overflow) unsupported("an integer of more than 100 bits");
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = without_underscores(text);
  if (!plain) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::string word = lowered(rest);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (word.empty() || word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (end != word.data() + word.size()) return std::nullopt;
    if (error == std::errc::invalid_argument) return std::nullopt;
    if (error == std::errc::result_out_of_range) value = std::strtod(word.c_str(), nullptr);
  }
  return negative ? -value : value;
}

}  // namespace monograph::jinja
