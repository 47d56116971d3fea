#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

int expected_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

Character read_character(std::string_view bytes, std::size_t at) {
  const auto lead = static_cast<unsigned char>(bytes[at]);
  const Character stray{0xDC00u + lead, 1};
  const int length = expected_length(lead);
  if (length == 1) return {lead, 1};
  if (length == 0 || at + length > bytes.size()) return stray;
  char32_t code = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at + i]);
    if (!is_continuation(byte)) return stray;
    code = code << 6 | (byte & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return stray;
  return {code, length};
}

std::size_t previous_character(std::string_view bytes, std::size_t end) {
  if (static_cast<unsigned char>(bytes[end - 1]) < 0x80) return end - 1;
  for (std::size_t length = 2; length <= 4 && length <= end; ++length) {
    const Character character = read_character(bytes, end - length);
    if (character.length == static_cast<int>(length)) return end - length;
  }
  return end - 1;
}

std::int64_t count_characters(std::string_view bytes) {
  std::int64_t n = 0;
  for (std::size_t at = 0; at < bytes.size(); ++n) {
    at += static_cast<unsigned char>(bytes[at]) < 0x80 ? 1 : read_character(bytes, at).length;
  }
  return n;
}

std::size_t offset_of(std::string_view bytes, std::int64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < bytes.size(); --index) at += read_character(bytes, at).length;
  return at;
}

void append_character(std::string& bytes, char32_t code) {
  const auto put = [&bytes](char32_t byte) { bytes.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code >= 0xDC80 && code <= 0xDCFF) {
    put(code - 0xDC00);  // a stray byte goes back as it came
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

}  // namespace monograph::jinja
