// The interpreter's calls: macros, built-in functions, recursive loops.
#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/capture.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace monograph::jinja {

Arguments Interpreter::arguments(const CallNode& call) {
  Arguments result;
  result.positional = evaluate_all(call.positional);
  for (const auto& [name, value] : call.named) result.named.emplace_back(name, evaluate(*value));
  if (call.star) spread(evaluate(*call.star), result);
  if (call.double_star) spread_named(evaluate(*call.double_star), result);
  return result;
}

void Interpreter::spread(const Value& value, Arguments& into) {
  for (Value& item : items_of(heap_, value)) into.positional.push_back(std::move(item));
}

void Interpreter::spread_named(const Value& value, Arguments& into) {
  const auto* dict = value.object<Dict>();
  if (!dict) check_defined(value), fail("argument after ** must be a mapping, not '" + type_name(value) + "'");
  for (const auto& [key, item] : dict->items) {
    if (!key.text()) fail("keywords must be strings");
    const std::string& name = key.text()->bytes;
    const auto same = [&name](const auto& earlier) { return earlier.first == name; };
    if (std::any_of(into.named.begin(), into.named.end(), same))
      fail("got multiple values for argument '" + name + "'");
    heap_.step(static_cast<std::int64_t>(1 + into.named.size() / 16));
    into.named.emplace_back(name, item);
  }
}

// A method is called without making an object of it first.
Value Interpreter::evaluate_call(const Expr& expr, std::optional<Value> caller) {
  const Expr& callee = *expr.kids[0];
  Value self, target;
  Native method = nullptr;
  if (callee.kind == ExprKind::kAttribute) {
    self = evaluate(*callee.kids[0]);
    line_ = callee.line;
    method = find_method(self, callee.name);
    if (!method) target = get_attribute(*this, self, callee.name);
  } else {
    target = evaluate(callee);
  }
  Arguments given = arguments(*expr.call);
  if (caller) given.named.emplace_back("caller", std::move(*caller));
  line_ = expr.line;
  heap_.step();
  return method ? method(*this, self, given) : call(target, given);
}

Value Interpreter::call(const Value& callee, const Arguments& given) {
  const Deeper deeper(*this);
  check_defined(callee);
  if (const auto* loop = callee.object<Loop>()) return call_loop(*loop, given);
  const auto* callable = callee.object<Callable>();
  if (!callable) fail("'" + type_name(callee) + "' object is not callable");
  return callable->macro ? call_macro(*callable, given) : callable->native(*this, callable->self, given);
}

Value Interpreter::call_macro(const Callable& callable, const Arguments& given) {
  const int line = line_;
  Scope* const scope = new_scope(callable.closure);
  const InScope inside(scope_, scope);
  bind_parameters(*callable.macro, given, *scope);
  Capture capture(out_);
  execute(callable.macro->body);
  line_ = line;
  return Value(heap_.counted(capture.finish()));
}

void Interpreter::bind_parameters(const MacroNode& macro, const Arguments& given, Scope& scope) {
  const std::size_t n_parameters = macro.parameters.size(), first_default = n_parameters - macro.defaults.size();
  std::vector<bool> used(given.named.size(), false);
  for (std::size_t i = 0; i < std::min(n_parameters, given.positional.size()); ++i) {
    scope.set(macro.parameters[i], given.positional[i]);
  }
  std::vector<std::size_t> missing;
  for (std::size_t i = given.positional.size(); i < n_parameters; ++i) {
    const auto named = [&](const auto& argument) { return argument.first == macro.parameter_names[i]; };
    const auto at = std::find_if(given.named.begin(), given.named.end(), named);
    if (at == given.named.end()) {
      missing.push_back(i);
    } else {
      used[static_cast<std::size_t>(at - given.named.begin())] = true;
      scope.set(macro.parameters[i], at->second);
    }
  }
  bind_extras(macro, given, std::move(used), scope);
  for (const std::size_t i : missing) {
    scope.set(macro.parameters[i],
              i >= first_default ? evaluate(*macro.defaults[i - first_default])
                                 : Value::undefined("parameter '" + macro.parameter_names[i] + "' was not provided"));
  }
}

// caller, kwargs and varargs, which a macro has if its body mentions them.
void Interpreter::bind_extras(const MacroNode& macro, const Arguments& given, std::vector<bool> used, Scope& scope) {
  if (macro.uses_caller) scope.set(template_.caller_symbol, Value::undefined("No caller defined"));
  auto* kwargs = macro.uses_kwargs ? heap_.make<Dict>() : nullptr;
  for (std::size_t i = 0; i < given.named.size(); ++i) {
    const auto& [name, value] = given.named[i];
    if (used[i]) continue;
    if (macro.uses_caller && name == "caller") {
      if (!value.is_none()) scope.set(template_.caller_symbol, value);
    } else if (kwargs) {
      set_key(heap_, *kwargs, heap_.text(name), value);
    } else {
      fail("macro '" + macro.name + "' takes no keyword argument '" + name + "'");
    }
  }
  if (kwargs) scope.set(template_.kwargs_symbol, Value(kwargs));
  const std::size_t n_parameters = macro.parameters.size();
  std::vector<Value> rest;
  if (given.positional.size() > n_parameters) {
    rest.assign(given.positional.begin() + static_cast<std::ptrdiff_t>(n_parameters), given.positional.end());
  }
  if (macro.uses_varargs) {
    scope.set(template_.varargs_symbol, heap_.tuple(std::move(rest)));
  } else if (!rest.empty()) {
    fail("macro '" + macro.name + "' takes not more than " + std::to_string(n_parameters) + " argument(s)");
  }
}

Value Interpreter::call_loop(const Loop& loop, const Arguments& given) {
  if (!loop.recursive_for) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (given.positional.size() != 1 || !given.named.empty()) fail("loop() takes one argument");
  const InScope inside(scope_, loop.scope);
  Capture capture(out_);
  execute_for(*static_cast<const Stmt*>(loop.recursive_for), given.positional[0], loop.depth0 + 1);
  return Value(heap_.counted(capture.finish()));
}

}  // namespace monograph::jinja
