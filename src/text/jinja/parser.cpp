#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/expression_parser.h"

namespace monograph::jinja {
namespace {

using Tags = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_, state_) {}

  Template run() {
    Template result;
    result.body = block({});
    if (!state_.unknown.empty()) throw state_.unknown.front();
    const auto symbol = [this](const char* name) {
      const auto at = state_.symbols.find(name);
      return at == state_.symbols.end() ? -1 : at->second;
    };
    result.loop_symbol = symbol("loop");
    result.caller_symbol = symbol("caller");
    result.kwargs_symbol = symbol("kwargs");
    result.varargs_symbol = symbol("varargs");
    result.names = std::move(state_.names);
    return result;
  }

 private:
  // Statements up to one of the end tags, whose name is left as the current token.
  Block block(Tags end) {
    Block body;
    while (true) {
      switch (tokens_.now().type) {
        case TokenType::kEnd:
          if (end.size() > 0)
            tokens_.bad("the template ends where {% " + std::string(*(end.end() - 1)) + " %} is missing");
          return body;
        case TokenType::kData:
          body.push_back(text());
          break;
        case TokenType::kOutputBegin:
          body.push_back(output());
          break;
        default:
          tokens_.expect(TokenType::kBlockBegin, "a tag");
          if (tokens_.is_any_name(end)) return body;
          statement(body);
          tokens_.expect(TokenType::kBlockEnd, "'%}'");
      }
    }
  }

  // The rest of an opening tag, and what stands up to one of the end tags.
  Block body(Tags end) {
    tokens_.skip_op(":");
    tokens_.expect(TokenType::kBlockEnd, "'%}'");
    return block(end);
  }
  Block whole_body(std::string_view end) {
    Block result = body({end});
    tokens_.next();
    return result;
  }

  StmtPtr make(StmtKind kind, int line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  StmtPtr text() {
    StmtPtr stmt = make(StmtKind::kText, tokens_.line());
    stmt->text = make_text(tokens_.next().text);
    return stmt;
  }

  StmtPtr output() {
    StmtPtr stmt = make(StmtKind::kOutput, tokens_.next().line);
    stmt->expr = expressions_.tuple();
    tokens_.expect(TokenType::kOutputEnd, "'}}'");
    return stmt;
  }

  void statement(Block& into) {
    const Nesting nesting(state_, tokens_.line());
    const Token tag = tokens_.expect(TokenType::kName, "the name of a tag");
    if (tag.text == "print") return print(into);
    into.push_back(one_statement(tag));
  }

  StmtPtr one_statement(const Token& tag) {
    if (tag.text == "if") return if_statement(tag.line);
    if (tag.text == "for") return for_statement(tag.line);
    if (tag.text == "set") return set_statement(tag.line);
    if (tag.text == "macro") return macro(tag.line);
    if (tag.text == "call") return call_block(tag.line);
    if (tag.text == "filter") return filter_block(tag.line);
    if (tag.text == "with") return with_block(tag.line);
    if (tag.text == "generation") return generation(tag.line);
    if (tag.text == "break" || tag.text == "continue") return loop_control(tag);
    constexpr std::array<std::string_view, 6> kRefused = {"block",  "extends", "include",
                                                          "import", "from",    "autoescape"};
    if (std::find(kRefused.begin(), kRefused.end(), tag.text) != kRefused.end()) {
      throw Failure(ErrorCode::kUnsupported, "{% " + tag.text + " %}", tag.line);
    }
    throw Failure(ErrorCode::kUnreadableFile, "unknown tag {% " + tag.text + " %}", tag.line);
  }

  void print(Block& into) {
    for (bool first = true; !tokens_.is(TokenType::kBlockEnd); first = false) {
      if (!first) tokens_.expect_op(",");
      StmtPtr stmt = make(StmtKind::kOutput, tokens_.line());
      stmt->expr = expressions_.expression();
      into.push_back(std::move(stmt));
    }
  }

  StmtPtr if_statement(int line) {
    StmtPtr stmt = make(StmtKind::kIf, line);
    const std::size_t n_unknown = state_.unknown.size();
    std::string tag = "elif";
    while (tag == "elif") {
      Branch branch;
      branch.condition = expressions_.tuple(/*with_conditional=*/false);
      branch.body = body({"elif", "else", "endif"});
      stmt->branches.push_back(std::move(branch));
      tag = tokens_.next().text;
    }
    if (tag == "else") stmt->branches.push_back({nullptr, whole_body("endif")});
    state_.unknown.erase(state_.unknown.begin() + n_unknown, state_.unknown.end());
    return stmt;
  }

  StmtPtr for_statement(int line) {
    StmtPtr stmt = make(StmtKind::kFor, line);
    ++state_.for_depth;
    stmt->target = expressions_.target(false);
    tokens_.expect_name("in");
    stmt->expr = expressions_.tuple(/*with_conditional=*/false);
    if (tokens_.skip_name("if")) stmt->condition = expressions_.expression();
    stmt->recursive = tokens_.skip_name("recursive");
    ++state_.loop_depth;
    stmt->body = body({"endfor", "else"});
    --state_.loop_depth;
    if (tokens_.next().text == "else") stmt->otherwise = whole_body("endfor");
    --state_.for_depth;
    return stmt;
  }

  StmtPtr set_statement(int line) {
    StmtPtr stmt = make(StmtKind::kSet, line);
    stmt->target = expressions_.target(/*with_namespace=*/true);
    if (tokens_.skip_op("=")) {
      stmt->expr = expressions_.tuple();
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    stmt->expr = expressions_.filters(nullptr);
    stmt->body = whole_body("endset");
    return stmt;
  }

  void signature(MacroNode& macro) {
    tokens_.expect_op("(");
    while (!tokens_.is_op(")")) {
      if (!macro.parameters.empty()) tokens_.expect_op(",");
      const std::string name = expressions_.target_name();
      if (std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name) != macro.parameter_names.end()) {
        tokens_.bad("parameter '" + name + "' stands twice");
      }
      macro.parameters.push_back(state_.symbol(name));
      macro.parameter_names.push_back(name);
      if (tokens_.skip_op("=")) {
        macro.defaults.push_back(expressions_.expression());
      } else if (!macro.defaults.empty()) {
        tokens_.bad("a parameter without a default follows one with a default");
      }
    }
    tokens_.expect_op(")");
  }

  // A macro's body sees no loop around it, so break and continue may not leave it.
  void macro_body(MacroNode& macro, std::string_view end) {
    const int loop_depth = std::exchange(state_.loop_depth, 0);
    state_.macros.push_back(&macro);
    macro.body = whole_body(end);
    state_.macros.pop_back();
    state_.loop_depth = loop_depth;
    const auto named = [&macro](std::string_view name) {
      return std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name) != macro.parameter_names.end();
    };
    if (macro.uses_caller && named("caller") && macro.defaults.empty()) {
      tokens_.bad("the parameter 'caller' needs a default");
    }
    macro.uses_caller &= !named("caller");
    macro.uses_kwargs &= !named("kwargs");
    macro.uses_varargs &= !named("varargs");
  }

  StmtPtr macro(int line) {
    StmtPtr stmt = make(StmtKind::kMacro, line);
    stmt->macro = std::make_unique<MacroNode>();
    stmt->macro->name = expressions_.target_name();
    stmt->macro->symbol = state_.symbol(stmt->macro->name);
    signature(*stmt->macro);
    macro_body(*stmt->macro, "endmacro");
    return stmt;
  }

  StmtPtr call_block(int line) {
    StmtPtr stmt = make(StmtKind::kCallBlock, line);
    stmt->macro = std::make_unique<MacroNode>();
    stmt->macro->name = "caller";
    if (tokens_.is_op("(")) signature(*stmt->macro);
    stmt->expr = expressions_.expression();
    if (stmt->expr->kind != ExprKind::kCall) throw Failure(ErrorCode::kUnreadableFile, "{% call %} needs a call", line);
    macro_body(*stmt->macro, "endcall");
    return stmt;
  }

  StmtPtr filter_block(int line) {
    StmtPtr stmt = make(StmtKind::kFilterBlock, line);
    stmt->expr = expressions_.filters(nullptr, /*inside_tag=*/true);
    stmt->body = whole_body("endfilter");
    return stmt;
  }

  StmtPtr with_block(int line) {
    StmtPtr stmt = make(StmtKind::kWith, line);
    while (!tokens_.is(TokenType::kBlockEnd)) {
      if (!stmt->assignments.empty()) tokens_.expect_op(",");
      ExprPtr target = expressions_.target(false);
      tokens_.expect_op("=");
      stmt->assignments.emplace_back(std::move(target), expressions_.expression());
    }
    stmt->body = whole_body("endwith");
    return stmt;
  }

  StmtPtr generation(int line) {
    StmtPtr stmt = make(StmtKind::kGeneration, line);
    const int loop_depth = std::exchange(state_.loop_depth, 0);
    stmt->body = whole_body("endgeneration");
    state_.loop_depth = loop_depth;
    return stmt;
  }

  StmtPtr loop_control(const Token& tag) {
    if (state_.loop_depth == 0)
      throw Failure(ErrorCode::kUnreadableFile, "{% " + tag.text + " %} outside of a loop", tag.line);
    return make(tag.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, tag.line);
  }

  TokenStream tokens_;
  ParseState state_;
  ExpressionParser expressions_;
};

}  // namespace

Template parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace monograph::jinja
