#include "text/jinja/lexer.h"

#include <array>
#include <charconv>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/limits.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

/// Line ends become \n, and one at the very end is dropped.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    out.push_back(c == '\r' ? '\n' : c);
    if (c == '\r' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

int hex_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_until_tag();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void bad(const std::string& what) const { throw Failure(ErrorCode::kUnreadableFile, what, line_); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view what) const { return std::string_view(source_).substr(at_).starts_with(what); }

  void add(TokenType type, std::string text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void advance(std::size_t n) {
    for (; n > 0; --n) line_ += source_[at_++] == '\n';
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }
  std::size_t skip_space(std::size_t from) const {
    while (from < source_.size()) {
      const Character character = read_character(source_, from);
      if (!is_space(character.code)) break;
      from += character.length;
    }
    return from;
  }

  // Outside of tags.
  std::size_t find_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#')) return i;
    }
    return std::string::npos;
  }

  void text_until_tag() {
    const std::size_t tag = find_tag();
    if (tag == std::string::npos) {
      add_data(source_.size());
      advance(source_.size() - at_);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(data_end(tag, sign, kind == '{'));
    advance(tag - at_);
    const std::size_t raw_body = kind == '%' ? end_of_raw_tag(tag, "raw", false) : std::string::npos;
    if (raw_body != std::string::npos) return raw(raw_body);
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return comment();
    inside_tag(kind == '{');
  }

  void add_data(std::size_t end) {
    if (end > at_) add(TokenType::kData, source_.substr(at_, end - at_));
  }

  // Where the text before a tag ends, after what the tag's sign and lstrip_blocks take away.
  std::size_t data_end(std::size_t tag, char sign, bool output) const {
    std::size_t end = tag;
    if (sign == '-') {
      while (end > at_) {
        const std::size_t previous = previous_character(std::string_view(source_).substr(0, end), end);
        if (previous < at_ || !is_space(read_character(source_, previous).code)) break;
        end = previous;
      }
      return end;
    }
    if (sign == '+' || output) return end;
    const std::size_t newline = tag > at_ ? source_.rfind('\n', tag - 1) : std::string::npos;
    const bool in_text = newline != std::string::npos && newline >= at_;
    if (!in_text && !line_starting_) return end;
    const std::size_t line_begin = in_text ? newline + 1 : at_;
    return skip_space(line_begin) >= tag ? line_begin : end;
  }

  // Behind `{% word %}` at `from`, or npos if that is not what stands there.
  std::size_t end_of_raw_tag(std::size_t from, std::string_view word, bool trims) const {
    std::size_t i = from + 2;
    if (i < source_.size() && (source_[i] == '-' || source_[i] == '+')) ++i;
    i = skip_space(i);
    const std::string_view rest = std::string_view(source_);
    if (!rest.substr(std::min(i, rest.size())).starts_with(word)) return std::string::npos;
    i = skip_space(i + word.size());
    if (rest.substr(i).starts_with("-%}")) return skip_space(i + 3);
    if (trims && rest.substr(i).starts_with("+%}")) return i + 3;
    if (!rest.substr(i).starts_with("%}")) return std::string::npos;
    i += 2;
    return trims && i < source_.size() && source_[i] == '\n' ? i + 1 : i;
  }

  void raw(std::size_t body) {
    advance(body - at_);
    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const std::size_t behind = end_of_raw_tag(tag, "endraw", true);
      if (behind == std::string::npos) continue;
      add_data(data_end(tag, source_[tag + 2], false));
      return advance(behind - at_);
    }
    bad("missing end of raw directive");
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) bad("missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    std::size_t behind = end + 2;
    if (sign == '-') {
      behind = skip_space(behind);
    } else if (sign != '+' && behind < source_.size() && source_[behind] == '\n') {
      ++behind;
    }
    advance(behind - at_);
  }

  // Inside {{ }} and {% %}.
  void inside_tag(bool output) {
    add(output ? TokenType::kOutputBegin : TokenType::kBlockBegin, output ? "{{" : "{%");
    open_.clear();
    while (at_ < source_.size()) {
      if (open_.empty() && tag_end(output)) return;
      const std::size_t behind = skip_space(at_);
      if (behind > at_) {
        advance(behind - at_);
        continue;
      }
      one_token();
    }
  }

  bool tag_end(bool output) {
    const std::string_view close = output ? "}}" : "%}";
    const std::size_t sign = peek() == '-' || (!output && peek() == '+') ? 1 : 0;
    if (!std::string_view(source_).substr(at_ + sign).starts_with(close)) return false;
    add(output ? TokenType::kOutputEnd : TokenType::kBlockEnd, std::string(close));
    std::size_t behind = at_ + sign + 2;
    if (sign == 1 && peek() == '-') {
      behind = skip_space(behind);
    } else if (sign == 0 && !output && behind < source_.size() && source_[behind] == '\n') {
      ++behind;
    }
    advance(behind - at_);
    return true;
  }

  void one_token() {
    const Character character = read_character(source_, at_);
    if (is_ascii_digit(peek())) return number();
    if (is_word(character.code)) return name();
    if (peek() == '"' || peek() == '\'') return string();
    op();
  }

  void name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const Character character = read_character(source_, end);
      if (!is_word(character.code)) break;
      end += character.length;
    }
    if (!is_alphabetic(read_character(source_, at_).code) && peek() != '_') bad("invalid character in identifier");
    add(TokenType::kName, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  // Digits with single underscores between them.
  std::size_t digits(std::size_t from, int base = 10) const {
    const auto good = [&](std::size_t i) {
      const int value = i < source_.size() ? hex_value(source_[i]) : -1;
      return value >= 0 && value < base;
    };
    if (!good(from)) return from;
    while (good(from) || (from < source_.size() && source_[from] == '_' && good(from + 1))) ++from;
    return from;
  }

  void number() {
    const std::size_t whole = digits(at_);
    std::size_t end = whole;
    if (end < source_.size() && source_[end] == '.' && digits(end + 1) > end + 1) end = digits(end + 1);
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (digits(exponent) > exponent) end = digits(exponent);
    }
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (end > whole && !after_dot) return real(end);
    integer(whole);
  }

  std::string without_underscores(std::size_t end) const {
    std::string text;
    for (std::size_t i = at_; i < end; ++i) {
      if (source_[i] != '_') text.push_back(source_[i]);
    }
    return text;
  }

  void real(std::size_t end) {
    const std::string text = without_underscores(end);
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc::result_out_of_range) value = std::strtod(text.c_str(), nullptr);
    add(TokenType::kFloat, text);
    tokens_.back().real = value;
    advance(end - at_);
  }

  void integer(std::size_t end) {
    int base = 10;
    if (peek() == '0') {
      const char mark = static_cast<char>(peek(1) | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const std::size_t first = at_ + 2 + (peek(2) == '_');
      if (base != 10 && digits(first, base) > first) {
        return add_integer(first, digits(first, base), base);
      }
      base = 10;
      end = at_;  // "0" and "00" are numbers, "01" is two
      while (end < source_.size() && (source_[end] == '0' || (source_[end] == '_' && source_[end + 1] == '0'))) ++end;
    }
    add_integer(at_, end, base);
  }

  void add_integer(std::size_t begin, std::size_t end, int base) {
    Int value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (source_[i] == '_') continue;
      value = value * base + hex_value(source_[i]);
      if (value > kMaxInt) {
        throw Failure(ErrorCode::kUnsupported, "an integer of more than 100 bits", line_);
      }
    }
    add(TokenType::kInteger, source_.substr(begin, end - begin));
    tokens_.back().integer = value;
    advance(end - at_);
  }

  void string() {
    const char quote = peek();
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) bad(std::string("a string that starts with ") + quote + " has no end");
    const std::string_view body = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    add(TokenType::kString, unescaped(body));
    advance(end + 1 - at_);
  }

  std::string unescaped(std::string_view body) const {
    std::string out;
    for (std::size_t i = 0; i < body.size();) {
      if (body[i] != '\\') {
        out.push_back(body[i++]);
      } else {
        i = escape(body, i + 1, out);
      }
    }
    return out;
  }

  // One escape, `i` at the character after the backslash; gives where it ends.
  std::size_t escape(std::string_view body, std::size_t i, std::string& out) const {
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = body[i];
    if (c == '\n') return i + 1;
    if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
      return i + 1;
    }
    if (c >= '0' && c <= '7') return octal(body, i, out);
    if (c == 'x') return hex(body, i + 1, 2, out);
    if (c == 'u') return hex(body, i + 1, 4, out);
    if (c == 'U') return hex(body, i + 1, 8, out);
    if (c == 'N') throw Failure(ErrorCode::kUnsupported, "the string escape \\N{...}", line_);
    out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x80) {
      out.push_back(c);
      return i + 1;
    }
    return escaped_non_ascii(body, i, out);
  }

  // Jinja turns a non-ASCII character into an escape first, so that the backslash before it eats that one's backslash.
  static std::size_t escaped_non_ascii(std::string_view body, std::size_t i, std::string& out) {
    const Character character = read_character(body, i);
    const int n_digits = character.code < 0x100 ? 2 : character.code < 0x10000 ? 4 : 8;
    out.push_back(n_digits == 2 ? 'x' : n_digits == 4 ? 'u' : 'U');
    for (int digit = n_digits - 1; digit >= 0; --digit)
      out.push_back("0123456789abcdef"[character.code >> (4 * digit) & 15]);
    return i + character.length;
  }

  static std::size_t octal(std::string_view body, std::size_t i, std::string& out) {
    char32_t code = 0;
    for (int n = 0; n < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++n, ++i)
      code = code * 8 + (body[i] - '0');
    append_character(out, code);
    return i;
  }

  std::size_t hex(std::string_view body, std::size_t i, int n_digits, std::string& out) const {
    std::uint64_t code = 0;
    for (int n = 0; n < n_digits; ++n, ++i) {
      const int digit = i < body.size() ? hex_value(body[i]) : -1;
      if (digit < 0) bad("a truncated \\x, \\u or \\U escape in a string");
      code = code * 16 + digit;
    }
    if (code > 0x10FFFF) bad("a \\U escape beyond Unicode in a string");
    if (code >= 0xD800 && code <= 0xDFFF)
      throw Failure(ErrorCode::kUnsupported, "a surrogate escape in a string", line_);
    append_character(out, static_cast<char32_t>(code));
    return i;
  }

  void op() {
    constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view found;
    for (const std::string_view candidate : kLong) {
      if (looking_at(candidate)) found = candidate;
    }
    const std::string_view rest = std::string_view(source_).substr(at_);
    if (found.empty()) found = rest.substr(0, 1);
    if (found.size() == 1 && std::string_view("+-*/%~[](){}=.:|,;<>").find(found[0]) == std::string_view::npos) {
      bad("unexpected character " + std::string(rest.substr(0, read_character(rest, 0).length)) + " in a tag");
    }
    balance(found[0]);
    add(TokenType::kOperator, std::string(found));
    advance(found.size());
  }

  void balance(char c) {
    if (c == '(') open_.push_back(')');
    if (c == '[') open_.push_back(']');
    if (c == '{') open_.push_back('}');
    if (c != ')' && c != ']' && c != '}') return;
    if (open_.empty()) bad(std::string("unexpected '") + c + "'");
    if (open_.back() != c) bad(std::string("unexpected '") + c + "', expected '" + open_.back() + "'");
    open_.pop_back();
  }

  std::string source_, open_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    throw Failure(ErrorCode::kUnsupported, "a template of more than " + std::to_string(kMaxSourceBytes >> 20) + " MiB",
                  1);
  }
  return Lexer(source).run();
}

}  // namespace monograph::jinja
