// Runs a template once.
#pragma once
#include <ctime>
#include <optional>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/ast.h"
#include "text/jinja/heap.h"
#include "text/jinja/scope.h"

namespace monograph::jinja {

class Interpreter {
 public:
  /// Both outlive the interpreter. `now`: what strftime_now() shows.
  Interpreter(const Template& source, const TemplateValue& variables, std::time_t now);
  /// The rendered prompt. Throws Failure or RaisedByTemplate; line() then tells where.
  Text run();

  Heap& heap() { return heap_; }
  std::time_t now() const { return now_; }
  int line() const { return line_; }
  /// Calls a macro, a built-in function or the variable of a recursive loop.
  Value call(const Value& callee, const Arguments& arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  friend class Deeper;

  // Statements (execute.cpp).
  Flow execute(const Block& block);
  Flow execute(const Stmt& stmt);
  void print(const Value& value);
  Flow execute_if(const Stmt& stmt);
  Flow execute_for(const Stmt& stmt, const Value& source, std::int64_t depth0);
  bool execute_turns(const Stmt& stmt, Loop& loop);
  Flow execute_set_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  Flow execute_in_new_scope(const Block& block);
  void execute_call_block(const Stmt& stmt);
  void assign(const Expr& target, const Value& value);
  void assign_attribute(const Expr& target, const Value& value);
  bool accepts(const Stmt& stmt, const Value& item);
  Scope* new_scope(Scope* parent);
  Value make_macro(const MacroNode& macro);

  // Calls (call.cpp).
  Arguments arguments(const CallNode& call);
  void spread(const Value& value, Arguments& into);
  void spread_named(const Value& value, Arguments& into);
  Value evaluate_call(const Expr& expr, std::optional<Value> caller = std::nullopt);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  void bind_parameters(const MacroNode& macro, const Arguments& arguments, Scope& scope);
  void bind_extras(const MacroNode& macro, const Arguments& arguments, std::vector<bool> used, Scope& scope);
  Value call_loop(const Loop& loop, const Arguments& arguments);

  // Expressions (evaluate.cpp).
  Value evaluate(const Expr& expr);
  Value evaluate_name(Symbol symbol);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& kids);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_subscript(const Expr& expr);
  Value evaluate_filter(const Expr& expr, const Value* input = nullptr);
  Value evaluate_test(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  bool compare(CompareOp op, const Value& a, const Value& b);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_arithmetic(const Expr& expr);

  const Template& template_;
  const std::time_t now_;
  Heap heap_;
  std::vector<std::optional<Value>> context_;  ///< The caller's variables and Jinja's globals, by Symbol.
  Scope* scope_ = nullptr;
  TextBuilder* out_ = nullptr;
  int line_ = 0;
  int depth_ = 0;
};

/// Counts one level of evaluation while it lives, so that no template overflows the stack.
class Deeper {
 public:
  explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > kMaxEvaluateDepth) {
      --interpreter_.depth_;
      fail("the template is more than " + std::to_string(kMaxEvaluateDepth) + " levels deep, or calls itself for ever");
    }
  }
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace monograph::jinja
