// The interpreter's statements.
#include "text/jinja/capture.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace monograph::jinja {

Scope* Interpreter::new_scope(Scope* parent) {
  auto* scope = heap_.make<Scope>();
  scope->parent = parent;
  return scope;
}

Text Interpreter::run() {
  TextBuilder prompt;
  out_ = &prompt;
  scope_ = new_scope(nullptr);
  execute(template_.body);
  return prompt.take();
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const StmtPtr& stmt : block) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  const Deeper deeper(*this);
  heap_.step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText:
      print(Value(stmt.text));
      return Flow::kNext;
    case StmtKind::kOutput:
      print(evaluate(*stmt.expr));
      return Flow::kNext;
    case StmtKind::kIf:
      return execute_if(stmt);
    case StmtKind::kFor:
      return execute_for(stmt, evaluate(*stmt.expr), 0);
    case StmtKind::kSet:
      assign(*stmt.target, evaluate(*stmt.expr));
      return Flow::kNext;
    case StmtKind::kSetBlock:
      return execute_set_block(stmt);
    case StmtKind::kWith:
      return execute_with(stmt);
    case StmtKind::kMacro:
      scope_->set(stmt.macro->symbol, make_macro(*stmt.macro));
      return Flow::kNext;
    case StmtKind::kCallBlock:
      execute_call_block(stmt);
      return Flow::kNext;
    case StmtKind::kFilterBlock:
      return execute_filter_block(stmt);
    case StmtKind::kGeneration:
      return execute_in_new_scope(stmt.body);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::print(const Value& value) {
  const TextPtr text = to_soft_str(heap_, value);
  heap_.scan(text->bytes.size());
  heap_.check_text_size(static_cast<Int>(out_->size() + text->bytes.size()));
  out_->append(*text);
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (!branch.condition || truthy(evaluate(*branch.condition))) return execute(branch.body);
  }
  return Flow::kNext;
}

bool Interpreter::accepts(const Stmt& stmt, const Value& item) {
  const InScope inside(scope_, new_scope(scope_));
  assign(*stmt.target, item);
  return truthy(evaluate(*stmt.condition));
}

Interpreter::Flow Interpreter::execute_for(const Stmt& stmt, const Value& source, std::int64_t depth0) {
  auto* loop = heap_.make<Loop>();
  loop->source = items_of(heap_, source);
  loop->depth0 = depth0;
  loop->scope = scope_;
  if (stmt.recursive) loop->recursive_for = &stmt;
  Scope* const around = scope_;
  if (stmt.condition) {
    loop->accepts = [this, &stmt, around](const Value& item) {
      const InScope outside(scope_, around);
      return accepts(stmt, item);
    };
  }
  const bool completed = execute_turns(stmt, *loop);
  loop->accepts = nullptr;
  // As in Jinja, a turn that breaks or continues does not count: else runs when no turn came to its end.
  if (completed || stmt.otherwise.empty()) return Flow::kNext;
  return execute_in_new_scope(stmt.otherwise);
}

// True if any turn came to its end.
bool Interpreter::execute_turns(const Stmt& stmt, Loop& loop) {
  bool completed = false;
  const Symbol loop_symbol = template_.loop_symbol;
  Scope* const around = scope_;
  Scope* scope = nullptr;
  while (advance(loop)) {
    if (!scope || scope->captured) scope = new_scope(around);
    scope->variables.clear();
    const InScope inside(scope_, scope);
    line_ = stmt.line;
    assign(*stmt.target, *loop.current);
    if (loop_symbol >= 0) scope->set(loop_symbol, Value(&loop));
    const Flow flow = execute(stmt.body);
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kNext;
  }
  return completed;
}

Interpreter::Flow Interpreter::execute_in_new_scope(const Block& block) {
  const InScope inside(scope_, new_scope(scope_));
  return execute(block);
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& stmt) {
  Value text;
  {
    Capture capture(out_);
    const Flow flow = execute_in_new_scope(stmt.body);
    if (flow != Flow::kNext) return flow;
    text = Value(heap_.counted(capture.finish()));
  }
  assign(*stmt.target, stmt.expr ? evaluate_filter(*stmt.expr, &text) : text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter_block(const Stmt& stmt) {
  Value text;
  {
    Capture capture(out_);
    const Flow flow = execute_in_new_scope(stmt.body);
    if (flow != Flow::kNext) return flow;
    text = Value(heap_.counted(capture.finish()));
  }
  print(evaluate_filter(*stmt.expr, &text));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, value] : stmt.assignments) values.push_back(evaluate(*value));
  const InScope inside(scope_, new_scope(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(*stmt.assignments[i].first, values[i]);
  return execute(stmt.body);
}

void Interpreter::execute_call_block(const Stmt& stmt) { print(evaluate_call(*stmt.expr, make_macro(*stmt.macro))); }

Value Interpreter::make_macro(const MacroNode& macro) {
  auto* callable = heap_.make<Callable>();
  callable->name = macro.name;
  callable->macro = &macro;
  callable->closure = scope_;
  for (Scope* scope = scope_; scope && !scope->captured; scope = scope->parent) scope->captured = true;
  return Value(callable);
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) return scope_->set(target.symbol, value);
  if (target.kind == ExprKind::kNamespaceRef) return assign_attribute(target, value);
  const std::vector<Value> items = items_of(heap_, value);
  if (items.size() != target.kids.size()) {
    fail("cannot unpack " + std::to_string(items.size()) + " values into " + std::to_string(target.kids.size()) +
         " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.kids[i], items[i]);
}

void Interpreter::assign_attribute(const Expr& target, const Value& value) {
  auto* space = evaluate_name(target.symbol).object<Namespace>();
  if (!space) fail("cannot assign attribute on non-namespace object");
  if (target.name.starts_with('_'))
    fail("a namespace may not hold '" + target.name + "': it starts with an underscore");
  if (Value* old = space->find(target.name)) {
    *old = value;
  } else {
    heap_.charge(sizeof(Value) + 64);
    space->attributes.emplace_back(target.name, value);
  }
}

}  // namespace monograph::jinja
