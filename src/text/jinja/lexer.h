// Template source to tokens, with Jinja's whitespace control (trim_blocks and lstrip_blocks on, as transformers has
// it).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace monograph::jinja {

enum class TokenType {
  kData,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  ///< Data, a name, an operator, or a string with its escapes resolved.
  Int integer = 0;
  double real = 0;
};

/// Throws Failure(kUnreadableFile), with its line, for what Jinja's lexer refuses.
std::vector<Token> tokenize(std::string_view source);

}  // namespace monograph::jinja
