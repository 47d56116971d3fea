#include "text/unicode_utf8.h"

#include <algorithm>

#include "text/tokenizer.h"

namespace monograph {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  int length = 0;  // 0: never starts a character
  unsigned char second_min = 0x80, second_max = 0xBF;
};

// The second byte's range rules out overlong forms, surrogates and values above U+10FFFF (Unicode table 3-7).
Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Char utf8_char_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {};
  char32_t code = first & (0x7Fu >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, false, true};
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const bool fits = i == 1 ? byte >= lead.second_min && byte <= lead.second_max : (byte & 0xC0) == 0x80;
    if (!fits) return {0xFFFD, i, false, false};
    code = code << 6 | (byte & 0x3F);
  }
  return {code, lead.length, true, false};
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  if (code >= 0x10000) {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
  } else if (code >= 0x800) {
    out += static_cast<char>(0xE0 | code >> 12);
  }
  if (code >= 0x800)
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  else
    out += static_cast<char>(0xC0 | code >> 6);
  out += static_cast<char>(0x80 | (code & 0x3F));
}

std::size_t utf8_settled_length(std::string_view text) {
  // A character cut short is at most three bytes and starts with a lead byte.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    const Utf8Char last = utf8_char_at(text, at);
    return last.cut_short && last.length == static_cast<int>(back) ? at : text.size();
  }
  return text.size();
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = utf8_char_at(bytes, at);
    if (c.well_formed)
      out.append(bytes, at, c.length);
    else
      out += kReplacement;
    at += c.length;
  }
  return out;
}

}  // namespace monograph
