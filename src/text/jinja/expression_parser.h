// Parses expressions, with Jinja's precedence.
#pragma once
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/parse_state.h"
#include "text/jinja/token_stream.h"

namespace monograph::jinja {

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, ParseState& state) : tokens_(tokens), state_(state) {}

  ExprPtr expression();
  /// An expression, or a tuple of them without parentheses.
  ExprPtr tuple(bool with_conditional = true, bool in_parentheses = false);
  /// What `for` and `set` assign to: names, tuples of them and, for `set`, namespace attributes.
  ExprPtr target(bool with_namespace);
  /// A chain of filters over `node`; with `inside_tag` the first stands without its bar.
  ExprPtr filters(ExprPtr node, bool inside_tag = false);
  /// A plain name to assign to: a macro, a parameter.
  std::string target_name();

 private:
  ExprPtr make(ExprKind kind, int line);
  ExprPtr with_kids(ExprKind kind, int line, std::vector<ExprPtr> kids);
  ExprPtr two(ExprKind kind, int line, ExprPtr a, ExprPtr b);
  ExprPtr checked(ExprPtr node);
  ExprPtr constant(Value value, int line);

  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  bool compare_op(CompareOp& op);
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary(bool with_namespace = false);
  ExprPtr name(bool with_namespace);
  ExprPtr string();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr attribute(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscript_part();
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr test(ExprPtr node);
  bool test_argument_follows() const;
  ExprPtr call(ExprPtr node);
  std::unique_ptr<CallNode> arguments();
  void argument(CallNode& call);
  std::string dotted_name();
  void check_target(const Expr& node) const;
  void note_unknown(const char* what, const std::string& name, int line, bool refused);

  TokenStream& tokens_;
  ParseState& state_;
};

}  // namespace monograph::jinja
