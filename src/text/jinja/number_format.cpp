#include "text/jinja/number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

constexpr int kMaxWidth = 1 << 20;

std::string digits_of(unsigned __int128 value, int base, bool upper) {
  // A named table: GCC 12 with -fsanitize=undefined reads a conditional pair of literals at the wrong place.
  const char* const table = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.push_back(table[static_cast<int>(value % base)]);
  } while ((value /= base) > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

/// `digits` with `mark` between groups, counted from the right.
std::string grouped(const std::string& digits, char mark, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out.push_back(mark);
    out.push_back(digits[i]);
  }
  return out;
}

std::string sign_of(bool negative, const FormatSpec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string printed(double value, const FormatSpec& spec, char type) {
  const std::string pattern = std::string("%") + (spec.alternate ? "#" : "") + ".*" + type;
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kMaxWidth) fail("the precision of a format is too large");
  std::vector<char> buffer(static_cast<std::size_t>(precision) + 512);
  // NOLINTNEXTLINE: the pattern is put together above, from a fixed set of letters.
  const int n = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision, value);
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}

}  // namespace

std::string aligned(std::string_view bytes, const FormatSpec& spec, char default_align, std::size_t n_signs) {
  if (spec.width > kMaxWidth) fail("the width of a format is too large");
  const auto missing = spec.width - static_cast<int>(std::min<std::int64_t>(count_characters(bytes), kMaxWidth));
  if (missing <= 0) return std::string(bytes);
  const char align = spec.align ? spec.align : default_align;
  const int left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const std::size_t inside = align == '=' ? n_signs : 0;
  std::string out(bytes.substr(0, inside));
  for (int i = 0; i < left; ++i) out += spec.fill;
  out += bytes.substr(inside);
  for (int i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string format_integer(Int value, const FormatSpec& spec) {
  const char type = spec.type ? spec.type : 'd';
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const auto magnitude = static_cast<unsigned __int128>(value);
  std::string digits = digits_of(value < 0 ? 0 - magnitude : magnitude, base, type == 'X');
  if (spec.precision > kMaxWidth) fail("the precision of a format is too large");
  const std::size_t least = spec.precision > 0 ? static_cast<std::size_t>(spec.precision) : 0;
  if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
  if (spec.grouping) digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string signs = sign_of(value < 0, spec);
  if (spec.alternate && base != 10) signs += std::string("0") + type;
  return aligned(signs + digits, spec, '>', signs.size());
}

std::string format_double(double value, const FormatSpec& spec) {
  const std::string signs = sign_of(std::signbit(value) && !std::isnan(value), spec);
  const double magnitude = std::fabs(value);
  std::string digits;
  if (!std::isfinite(value)) {
    const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
    digits = std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    if (spec.type == '%') digits += '%';
  } else if (spec.type == '%') {
    digits = printed(magnitude * 100, spec, 'f') + "%";
  } else if (spec.type == 0) {
    if (spec.precision >= 0) unsupported("a format with a precision and no type");
    digits = float_repr(magnitude);
  } else {
    digits = printed(magnitude, spec, spec.type);
  }
  if (spec.grouping) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  return aligned(signs + digits, spec, '>', signs.size());
}

}  // namespace monograph::jinja
