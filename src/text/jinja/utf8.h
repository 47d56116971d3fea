// Characters inside UTF-8 bytes. A byte that belongs to no character counts as one character of its own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace monograph::jinja {

/// A character and how many bytes it takes. A stray byte b reads as 0xDC00 + b, which no well-formed text contains.
struct Character {
  char32_t code;
  int length;
};

Character read_character(std::string_view bytes, std::size_t at);
/// Start of the character that ends right before `end`; end > 0.
std::size_t previous_character(std::string_view bytes, std::size_t end);
std::int64_t count_characters(std::string_view bytes);
/// Where character `index` starts; the end if there are fewer.
std::size_t offset_of(std::string_view bytes, std::int64_t index);
void append_character(std::string& bytes, char32_t code);

}  // namespace monograph::jinja
