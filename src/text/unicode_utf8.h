// UTF-8, one character at a time, with ill-formed bytes as values instead of errors.
#pragma once
#include <string>
#include <string_view>

namespace monograph {

/// What stands at one place of a byte string. Ill-formed: code is U+FFFD and length covers the maximal subpart, which
/// is what one U+FFFD stands for (WHATWG, Unicode 3.9).
struct Utf8Char {
  char32_t code = 0xFFFD;
  int length = 1;
  bool well_formed = false;
  bool cut_short = false;  ///< Ill-formed only because the text ends: more bytes could complete it.
};

/// Requires at < text.size().
Utf8Char utf8_char_at(std::string_view text, std::size_t at);
void append_utf8(std::string& out, char32_t code);
/// The length of the longest prefix that no later byte can change: all but a character cut short at the end.
std::size_t utf8_settled_length(std::string_view text);

}  // namespace monograph
