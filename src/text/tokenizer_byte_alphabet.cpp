#include "text/tokenizer_byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/unicode_utf8.h"

namespace monograph {
namespace {

// Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 and up.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}
constexpr int kCodes = 0x100 + 68;

struct Alphabet {
  std::array<std::uint16_t, 256> code{};
  std::array<std::int16_t, kCodes> byte{};
};
constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  int shifted = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = stands_for_itself(byte) ? byte : shifted++;
    alphabet.code[byte] = static_cast<std::uint16_t>(code);
    alphabet.byte[code] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view entry) {
  std::string bytes;
  for (std::size_t at = 0; at < entry.size();) {
    const Utf8Char c = utf8_char_at(entry, at);
    if (!c.well_formed || c.code >= kCodes || kAlphabet.byte[c.code] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[c.code]);
    at += c.length;
  }
  return bytes;
}

std::string alphabet_from_bytes(std::string_view bytes) {
  std::string entry;
  for (const char c : bytes) append_utf8(entry, kAlphabet.code[static_cast<unsigned char>(c)]);
  return entry;
}

}  // namespace monograph
