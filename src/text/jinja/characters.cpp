#include "text/jinja/characters.h"
#include "text/jinja/utf8.h"
namespace monograph::jinja {
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
bool is_printable(char32_t c) {
  return c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa1) && (c == ' ' || !is_space(c));
}
bool is_alphabetic(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool is_numeric(char32_t c) { return c >= '0' && c <= '9'; }
bool is_digit(char32_t c) { return is_numeric(c); }
bool is_decimal(char32_t c) { return is_numeric(c); }
bool is_upper(char32_t c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char32_t c) { return c >= 'a' && c <= 'z'; }
std::string to_upper(std::string_view b) {
  std::string s(b);
  for (char& c : s)
    if (is_lower(c)) c -= 32;
  return s;
}
std::string to_lower(std::string_view b) {
  std::string s(b);
  for (char& c : s)
    if (is_upper(c)) c += 32;
  return s;
}
std::string capitalized(std::string_view b) {
  std::string s = to_lower(b);
  if (!s.empty() && is_lower(s[0])) s[0] -= 32;
  return s;
}
std::string titled(std::string_view b) {
  std::string s(b);
  bool in = false;
  for (char& c : s) {
    bool a = is_upper(c) || is_lower(c);
    if (a) c = in ? (c | 0x20) : (c & ~0x20);
    in = a;
  }
  return s;
}
}  // namespace monograph::jinja
