// Properties of characters, as Python's str methods see them.
#pragma once
#include <string>
#include <string_view>

namespace monograph::jinja {

bool is_space(char32_t code);
bool is_printable(char32_t code);
bool is_alphabetic(char32_t code);
bool is_numeric(char32_t code);  ///< Any number character: str.isnumeric().
bool is_digit(char32_t code);    ///< str.isdigit()
bool is_decimal(char32_t code);  ///< str.isdecimal()
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);  ///< A digraph such as U+01C5, upper case at its first letter only.
inline bool is_word(char32_t code) { return code == '_' || is_alphabetic(code) || is_numeric(code); }

std::string to_upper(std::string_view bytes);
std::string to_lower(std::string_view bytes);
/// The first character in title case, the others lower: str.capitalize().
std::string capitalized(std::string_view bytes);
/// str.title(): each run of cased characters capitalized.
std::string titled(std::string_view bytes);

}  // namespace monograph::jinja
