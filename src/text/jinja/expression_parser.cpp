#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"

namespace monograph::jinja {

ExprPtr ExpressionParser::make(ExprKind kind, int line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

// Sets the depth, once everything below is in place.
ExprPtr ExpressionParser::checked(ExprPtr node) {
  const auto below = [&node](const ExprPtr& kid) {
    if (kid) node->depth = std::max(node->depth, kid->depth + 1);
  };
  std::for_each(node->kids.begin(), node->kids.end(), below);
  if (node->call) {
    std::for_each(node->call->positional.begin(), node->call->positional.end(), below);
    for (const auto& [name, value] : node->call->named) below(value);
    below(node->call->star), below(node->call->double_star);
  }
  if (node->depth > kMaxTreeDepth) {
    throw Failure(ErrorCode::kUnsupported, "an expression of more than " + std::to_string(kMaxTreeDepth) + " levels",
                  node->line);
  }
  return node;
}

ExprPtr ExpressionParser::with_kids(ExprKind kind, int line, std::vector<ExprPtr> kids) {
  ExprPtr node = make(kind, line);
  node->kids = std::move(kids);
  return checked(std::move(node));
}

ExprPtr ExpressionParser::two(ExprKind kind, int line, ExprPtr a, ExprPtr b) {
  std::vector<ExprPtr> kids;
  kids.push_back(std::move(a));
  if (b) kids.push_back(std::move(b));
  return with_kids(kind, line, std::move(kids));
}

ExprPtr ExpressionParser::constant(Value value, int line) {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExprPtr ExpressionParser::expression() {
  const Nesting nesting(state_, tokens_.line());
  const std::size_t n_unknown = state_.unknown.size();
  int line = tokens_.line();
  ExprPtr value = logical_or();
  while (tokens_.skip_name("if")) {
    std::vector<ExprPtr> kids(3);
    kids[0] = logical_or();
    kids[1] = std::move(value);
    if (tokens_.skip_name("else")) kids[2] = expression();
    value = with_kids(ExprKind::kConditional, line, std::move(kids));
    state_.unknown.erase(state_.unknown.begin() + n_unknown, state_.unknown.end());
    line = tokens_.line();
  }
  return value;
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr left = logical_and();
  for (int line = tokens_.line(); tokens_.skip_name("or"); line = tokens_.line()) {
    left = two(ExprKind::kOr, line, std::move(left), logical_and());
  }
  return left;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr left = logical_not();
  for (int line = tokens_.line(); tokens_.skip_name("and"); line = tokens_.line()) {
    left = two(ExprKind::kAnd, line, std::move(left), logical_not());
  }
  return left;
}

ExprPtr ExpressionParser::logical_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const Nesting nesting(state_, line);
  return two(ExprKind::kNot, line, logical_not(), nullptr);
}

bool ExpressionParser::compare_op(CompareOp& op) {
  constexpr std::array<std::pair<std::string_view, CompareOp>, 6> kOps = {{{"==", CompareOp::kEqual},
                                                                           {"!=", CompareOp::kNotEqual},
                                                                           {"<", CompareOp::kLess},
                                                                           {"<=", CompareOp::kLessEqual},
                                                                           {">", CompareOp::kGreater},
                                                                           {">=", CompareOp::kGreaterEqual}}};
  for (const auto& [text, meaning] : kOps) {
    op = meaning;
    if (tokens_.skip_op(text)) return true;
  }
  op = CompareOp::kIn;
  if (tokens_.skip_name("in")) return true;
  op = CompareOp::kNotIn;
  if (!tokens_.is_name("not") || tokens_.look().type != TokenType::kName || tokens_.look().text != "in") return false;
  tokens_.next(), tokens_.next();
  return true;
}

ExprPtr ExpressionParser::comparison() {
  const int line = tokens_.line();
  ExprPtr first = sum();
  std::vector<CompareOp> ops;
  std::vector<ExprPtr> kids;
  for (CompareOp op{}; compare_op(op);) {
    ops.push_back(op);
    kids.push_back(sum());
  }
  if (ops.empty()) return first;
  kids.insert(kids.begin(), std::move(first));
  ExprPtr node = with_kids(ExprKind::kCompare, line, std::move(kids));
  node->compares = std::move(ops);
  return node;
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (tokens_.is_op("+") || tokens_.is_op("-")) {
    const Token op = tokens_.next();
    left = two(op.text == "+" ? ExprKind::kAdd : ExprKind::kSubtract, op.line, std::move(left), concatenation());
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  std::vector<ExprPtr> parts;
  do {
    parts.push_back(product());
  } while (tokens_.skip_op("~"));
  return parts.size() == 1 ? std::move(parts[0]) : with_kids(ExprKind::kConcat, line, std::move(parts));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (tokens_.is_op("*") || tokens_.is_op("/") || tokens_.is_op("//") || tokens_.is_op("%")) {
    const Token op = tokens_.next();
    const ExprKind kind = op.text == "*"    ? ExprKind::kMultiply
                          : op.text == "/"  ? ExprKind::kDivide
                          : op.text == "//" ? ExprKind::kFloorDivide
                                            : ExprKind::kModulo;
    left = two(kind, op.line, std::move(left), power());
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  for (int line = tokens_.line(); tokens_.skip_op("**"); line = tokens_.line()) {
    left = two(ExprKind::kPower, line, std::move(left), unary());
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  const int line = tokens_.line();
  ExprPtr node;
  if (tokens_.is_op("-") || tokens_.is_op("+")) {
    const Nesting nesting(state_, line);
    const ExprKind kind = tokens_.next().text == "-" ? ExprKind::kNegate : ExprKind::kPlus;
    node = two(kind, line, unary(false), nullptr);
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary(bool with_namespace) {
  const int line = tokens_.line();
  switch (tokens_.now().type) {
    case TokenType::kName:
      return name(with_namespace);
    case TokenType::kString:
      return string();
    case TokenType::kInteger:
      return constant(Value::integer(tokens_.next().integer), line);
    case TokenType::kFloat:
      return constant(Value(tokens_.next().real), line);
    default:
      break;
  }
  if (tokens_.is_op("[")) return list();
  if (tokens_.is_op("{")) return dict();
  if (!tokens_.skip_op("(")) tokens_.bad("expected an expression, found " + tokens_.describe());
  ExprPtr inner = tuple(true, /*in_parentheses=*/true);
  tokens_.expect_op(")");
  return inner;
}

ExprPtr ExpressionParser::name(bool with_namespace) {
  const Token token = tokens_.next();
  if (token.text == "true" || token.text == "True") return constant(Value(true), token.line);
  if (token.text == "false" || token.text == "False") return constant(Value(false), token.line);
  if (token.text == "none" || token.text == "None") return constant(Value(), token.line);
  ExprPtr node = make(ExprKind::kName, token.line);
  node->symbol = state_.symbol(token.text);
  if (with_namespace && tokens_.skip_op(".")) {
    node->kind = ExprKind::kNamespaceRef;
    node->name = tokens_.expect(TokenType::kName, "an attribute").text;
  }
  for (MacroNode* macro : state_.macros) {
    macro->uses_caller |= token.text == "caller";
    macro->uses_kwargs |= token.text == "kwargs";
    macro->uses_varargs |= token.text == "varargs";
  }
  return node;
}

ExprPtr ExpressionParser::string() {
  const int line = tokens_.line();
  std::string text;
  while (tokens_.is(TokenType::kString)) text += tokens_.next().text;
  return constant(Value::text(std::move(text)), line);
}

ExprPtr ExpressionParser::list() {
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  tokens_.expect_op("[");
  while (!tokens_.is_op("]")) {
    if (!items.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_op("]");
  return with_kids(ExprKind::kList, line, std::move(items));
}

ExprPtr ExpressionParser::dict() {
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  tokens_.expect_op("{");
  while (!tokens_.is_op("}")) {
    if (!items.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("}")) break;
    items.push_back(expression());
    tokens_.expect_op(":");
    items.push_back(expression());
  }
  tokens_.expect_op("}");
  return with_kids(ExprKind::kDict, line, std::move(items));
}

ExprPtr ExpressionParser::tuple(bool with_conditional, bool in_parentheses) {
  const int line = tokens_.line();
  const auto at_end = [&] {
    return tokens_.is(TokenType::kOutputEnd) || tokens_.is(TokenType::kBlockEnd) || tokens_.is_op(")");
  };
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.expect_op(",");
    if (at_end()) break;
    items.push_back(with_conditional ? expression() : logical_or());
    if (!tokens_.is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) tokens_.bad("expected an expression, found " + tokens_.describe());
  return with_kids(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::target(bool with_namespace) {
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.expect_op(",");
    if (tokens_.is(TokenType::kBlockEnd)) break;
    items.push_back(primary(with_namespace));
    check_target(*items.back());
    if (!tokens_.is_op(",")) break;
    is_tuple = true;
  }
  if (items.empty()) tokens_.bad("expected a name to assign to, found " + tokens_.describe());
  if (!is_tuple) return std::move(items[0]);
  return with_kids(ExprKind::kTuple, line, std::move(items));
}

void ExpressionParser::check_target(const Expr& node) const {
  if (node.kind == ExprKind::kNamespaceRef) return;
  if (node.kind == ExprKind::kTuple) {
    for (const ExprPtr& kid : node.kids) check_target(*kid);
    return;
  }
  if (node.kind != ExprKind::kName)
    throw Failure(ErrorCode::kUnreadableFile, "cannot assign to this expression", node.line);
  if (state_.for_depth > 0 && state_.names[node.symbol] == "loop") {
    throw Failure(ErrorCode::kUnreadableFile, "cannot assign to the special variable loop inside a for", node.line);
  }
}

std::string ExpressionParser::target_name() {
  const Token token = tokens_.expect(TokenType::kName, "a name");
  constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none", "True", "False", "None"};
  if (std::find(kConstants.begin(), kConstants.end(), token.text) != kConstants.end()) {
    throw Failure(ErrorCode::kUnreadableFile, "cannot assign to '" + token.text + "'", token.line);
  }
  return token.text;
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (tokens_.is_op(".")) {
      node = attribute(std::move(node));
    } else if (tokens_.is_op("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::attribute(ExprPtr node) {
  const int line = tokens_.next().line;
  const Token token = tokens_.now();
  if (token.type == TokenType::kInteger) {
    tokens_.next();
    return two(ExprKind::kSubscript, line, std::move(node), constant(Value::integer(token.integer), line));
  }
  tokens_.expect(TokenType::kName, "a name or number after '.'");
  ExprPtr made = two(ExprKind::kAttribute, line, std::move(node), nullptr);
  made->name = token.text;
  return made;
}

ExprPtr ExpressionParser::subscript(ExprPtr node) {
  const int line = tokens_.line();
  std::vector<ExprPtr> parts;
  bool sliced = false;
  tokens_.expect_op("[");
  while (!tokens_.is_op("]")) {
    if (!parts.empty()) tokens_.expect_op(",");
    parts.push_back(subscript_part());
    sliced |= parts.back()->kind == ExprKind::kSlice;
  }
  tokens_.expect_op("]");
  if (sliced && parts.size() > 1) throw Failure(ErrorCode::kUnsupported, "a slice beside other subscripts", line);
  ExprPtr key = parts.size() == 1 ? std::move(parts[0]) : with_kids(ExprKind::kTuple, line, std::move(parts));
  return two(ExprKind::kSubscript, line, std::move(node), std::move(key));
}

// One key, or start:stop:step with any of them absent.
ExprPtr ExpressionParser::subscript_part() {
  const int line = tokens_.line();
  const auto optional_part = [this] {
    const bool absent = tokens_.is_op(":") || tokens_.is_op("]") || tokens_.is_op(",");
    return absent ? nullptr : expression();
  };
  std::vector<ExprPtr> kids(3);
  kids[0] = tokens_.is_op(":") ? nullptr : expression();
  if (!tokens_.skip_op(":")) return std::move(kids[0]);
  kids[1] = optional_part();
  if (tokens_.skip_op(":")) kids[2] = optional_part();
  return with_kids(ExprKind::kSlice, line, std::move(kids));
}

ExprPtr ExpressionParser::call(ExprPtr node) {
  const int line = tokens_.line();
  ExprPtr made = make(ExprKind::kCall, line);
  made->call = arguments();
  made->kids.push_back(std::move(node));
  return checked(std::move(made));
}

std::unique_ptr<CallNode> ExpressionParser::arguments() {
  auto call = std::make_unique<CallNode>();
  tokens_.expect_op("(");
  bool first = true;
  while (!tokens_.is_op(")")) {
    if (!first) tokens_.expect_op(",");
    if (tokens_.is_op(")")) break;
    argument(*call);
    first = false;
  }
  tokens_.expect_op(")");
  return call;
}

void ExpressionParser::argument(CallNode& call) {
  const auto require = [this](bool condition) {
    if (!condition) tokens_.bad("arguments in an order that a call does not allow");
  };
  if (tokens_.is_op("*")) {
    require(!call.star && !call.double_star);
    tokens_.next();
    call.star = expression();
  } else if (tokens_.is_op("**")) {
    require(!call.double_star);
    tokens_.next();
    call.double_star = expression();
  } else if (tokens_.is(TokenType::kName) && tokens_.look().type == TokenType::kOperator &&
             tokens_.look().text == "=") {
    require(!call.double_star);
    std::string name = tokens_.next().text;
    tokens_.next();
    for (const auto& [earlier, value] : call.named) require(earlier != name);
    call.named.emplace_back(std::move(name), expression());
  } else {
    require(!call.star && !call.double_star && call.named.empty());
    call.positional.push_back(expression());
  }
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect(TokenType::kName, "a name").text;
  while (tokens_.skip_op(".")) name += "." + tokens_.expect(TokenType::kName, "a name").text;
  return name;
}

void ExpressionParser::note_unknown(const char* what, const std::string& name, int line, bool refused) {
  state_.unknown.emplace_back(refused ? ErrorCode::kUnsupported : ErrorCode::kUnreadableFile,
                              std::string(refused ? "the " : "there is no ") + what + " '" + name + "'", line);
}

ExprPtr ExpressionParser::filters(ExprPtr node, bool inside_tag) {
  while (inside_tag || tokens_.is_op("|")) {
    if (!inside_tag) tokens_.next();
    inside_tag = false;
    ExprPtr made = make(ExprKind::kFilter, tokens_.line());
    made->name = dotted_name();
    made->native = find_filter(made->name);
    if (!made->native) note_unknown("filter", made->name, made->line, is_refused_filter(made->name));
    made->call = tokens_.is_op("(") ? arguments() : std::make_unique<CallNode>();
    made->kids.push_back(std::move(node));
    node = checked(std::move(made));
  }
  return node;
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (tokens_.is_op("|")) {
      node = filters(std::move(node));
    } else if (tokens_.is_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.is_op("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

bool ExpressionParser::test_argument_follows() const {
  const Token& token = tokens_.now();
  switch (token.type) {
    case TokenType::kName:
      return token.text != "else" && token.text != "or" && token.text != "and";
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    default:
      return tokens_.is_op("[") || tokens_.is_op("{");
  }
}

ExprPtr ExpressionParser::test(ExprPtr node) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  ExprPtr made = make(ExprKind::kTest, line);
  made->name = dotted_name();
  made->native = find_test(made->name);
  if (!made->native) note_unknown("test", made->name, line, false);
  if (tokens_.is_op("(")) {
    made->call = arguments();
  } else {
    made->call = std::make_unique<CallNode>();
    if (test_argument_follows()) {
      if (tokens_.is_name("is")) tokens_.bad("tests cannot be chained with 'is'");
      made->call->positional.push_back(postfix(primary()));
    }
  }
  made->kids.push_back(std::move(node));
  ExprPtr result = checked(std::move(made));
  return negated ? two(ExprKind::kNot, line, std::move(result), nullptr) : std::move(result);
}

}  // namespace monograph::jinja
