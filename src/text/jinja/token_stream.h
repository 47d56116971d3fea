// A cursor over tokens, with the checks every parsing function needs.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"

namespace monograph::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return now().line; }
  Token next() {
    Token token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool is(TokenType type) const { return now().type == type; }
  bool is_name(std::string_view name) const { return is(TokenType::kName) && now().text == name; }
  bool is_op(std::string_view op) const { return is(TokenType::kOperator) && now().text == op; }
  bool is_any_name(std::initializer_list<std::string_view> names) const {
    return is(TokenType::kName) && std::find(names.begin(), names.end(), now().text) != names.end();
  }

  bool skip_name(std::string_view name) { return is_name(name) && (next(), true); }
  bool skip_op(std::string_view op) { return is_op(op) && (next(), true); }
  Token expect(TokenType type, const char* what) {
    if (!is(type)) bad(std::string("expected ") + what + ", found " + describe());
    return next();
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) bad("expected '" + std::string(op) + "', found " + describe());
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) bad("expected '" + std::string(name) + "', found " + describe());
  }

  std::string describe() const {
    switch (now().type) {
      case TokenType::kEnd:
        return "the end of the template";
      case TokenType::kString:
        return "a string";
      case TokenType::kData:
        return "text";
      default:
        return "'" + now().text + "'";
    }
  }
  [[noreturn]] void bad(const std::string& what) const { throw Failure(ErrorCode::kUnreadableFile, what, line()); }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace monograph::jinja
