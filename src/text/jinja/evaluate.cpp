// The interpreter's expressions.
#include "text/jinja/arithmetic.h"
#include "text/jinja/attributes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace monograph::jinja {

// Only what the template mentions is converted.
Interpreter::Interpreter(const Template& source, const TemplateValue& variables, std::time_t now)
    : template_(source), now_(now), context_(source.names.size()) {
  for (std::size_t i = 0; i < source.names.size(); ++i) {
    const std::string& name = source.names[i];
    const auto given = variables.is_object() ? variables.find(name) : variables.end();
    if (given != variables.end()) {
      context_[i] = from_variable(heap_, name, *given);
    } else if (const Native native = find_global(name)) {
      auto* function = heap_.make<Callable>();
      function->name = name;
      function->native = native;
      context_[i] = Value(function);
    }
  }
}

Value Interpreter::evaluate(const Expr& expr) {
  const Deeper deeper(*this);
  heap_.step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return evaluate_name(expr.symbol);
    case ExprKind::kTuple:
      return heap_.tuple(evaluate_all(expr.kids));
    case ExprKind::kList:
      return heap_.list(evaluate_all(expr.kids));
    case ExprKind::kDict:
      return evaluate_dict(expr);
    case ExprKind::kAttribute:
      return get_attribute(*this, evaluate(*expr.kids[0]), expr.name);
    case ExprKind::kSubscript:
      return evaluate_subscript(expr);
    case ExprKind::kSlice:
      break;  // only inside a subscript
    case ExprKind::kCall:
      return evaluate_call(expr);
    case ExprKind::kFilter:
      return evaluate_filter(expr);
    case ExprKind::kTest:
      return evaluate_test(expr);
    case ExprKind::kConditional:
      return evaluate_conditional(expr);
    case ExprKind::kOr: {
      Value left = evaluate(*expr.kids[0]);
      return truthy(left) ? left : evaluate(*expr.kids[1]);
    }
    case ExprKind::kAnd: {
      Value left = evaluate(*expr.kids[0]);
      return truthy(left) ? evaluate(*expr.kids[1]) : left;
    }
    case ExprKind::kNot:
      return Value(!truthy(evaluate(*expr.kids[0])));
    case ExprKind::kNegate:
      return negate(evaluate(*expr.kids[0]));
    case ExprKind::kPlus:
      return plus(evaluate(*expr.kids[0]));
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    default:
      return evaluate_arithmetic(expr);
  }
  unsupported("a slice outside of a subscript");
}

Value Interpreter::evaluate_name(Symbol symbol) {
  if (const Value* value = scope_->find(symbol)) return *value;
  if (const auto& value = context_[symbol]) return *value;
  const std::string& name = template_.names[symbol];
  if (is_refused_global(name)) unsupported("the function '" + name + "'");
  return Value::undefined("'" + name + "' is undefined");
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExprPtr>& kids) {
  std::vector<Value> values;
  values.reserve(kids.size());
  for (const ExprPtr& kid : kids) values.push_back(evaluate(*kid));
  return values;
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  auto* dict = heap_.make<Dict>();
  for (std::size_t i = 0; i < expr.kids.size(); i += 2) {
    const Value key = evaluate(*expr.kids[i]);
    set_key(heap_, *dict, key, evaluate(*expr.kids[i + 1]));
  }
  return Value(dict);
}

Value Interpreter::evaluate_subscript(const Expr& expr) {
  const Value object = evaluate(*expr.kids[0]);
  const Expr& key = *expr.kids[1];
  if (key.kind != ExprKind::kSlice) return get_item(*this, object, evaluate(key));
  const auto part = [this, &key](int i) { return key.kids[i] ? evaluate(*key.kids[i]) : Value(); };
  const Value start = part(0), stop = part(1), step = part(2);
  return get_slice(*this, object, start, stop, step);
}

// `input` stands at the head of the chain, for filters on a block.
Value Interpreter::evaluate_filter(const Expr& expr, const Value* input) {
  const Deeper deeper(*this);
  const Expr* below = expr.kids[0].get();
  const Value value = !below                             ? *input
                      : below->kind == ExprKind::kFilter ? evaluate_filter(*below, input)
                                                         : evaluate(*below);
  if (!expr.native && is_refused_filter(expr.name)) unsupported("the filter '" + expr.name + "'");
  if (!expr.native) fail("No filter named '" + expr.name + "' found.");
  const Arguments given = arguments(*expr.call);
  line_ = expr.line;
  heap_.step();
  return expr.native(*this, value, given);
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value value = evaluate(*expr.kids[0]);
  if (!expr.native) fail("No test named '" + expr.name + "' found.");
  const Arguments given = arguments(*expr.call);
  line_ = expr.line;
  return expr.native(*this, value, given);
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truthy(evaluate(*expr.kids[0]))) return evaluate(*expr.kids[1]);
  if (expr.kids[2]) return evaluate(*expr.kids[2]);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

// a < b < c means a < b and b < c, with b evaluated once.
Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.kids[0]);
  for (std::size_t i = 0; i < expr.compares.size(); ++i) {
    Value right = evaluate(*expr.kids[i + 1]);
    if (!compare(expr.compares[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::compare(CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEqual:
      return equal(heap_, a, b);
    case CompareOp::kNotEqual:
      return !equal(heap_, a, b);
    case CompareOp::kLess:
      return less(heap_, a, b);
    case CompareOp::kGreater:
      return less(heap_, b, a);
    case CompareOp::kLessEqual:
      return less_equal(heap_, a, b);
    case CompareOp::kGreaterEqual:
      return less_equal(heap_, b, a);
    case CompareOp::kIn:
      return contains(heap_, b, a);
    case CompareOp::kNotIn:
      return !contains(heap_, b, a);
  }
  return false;
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  TextBuilder builder;
  for (const ExprPtr& kid : expr.kids) {
    builder.append(*to_str(heap_, evaluate(*kid)));
    heap_.check_text_size(static_cast<Int>(builder.size()));
  }
  return Value(heap_.counted(builder.finish()));
}

Value Interpreter::evaluate_arithmetic(const Expr& expr) {
  const Value a = evaluate(*expr.kids[0]);
  const Value b = evaluate(*expr.kids[1]);
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kAdd:
      return add(heap_, a, b);
    case ExprKind::kSubtract:
      return subtract(a, b);
    case ExprKind::kMultiply:
      return multiply(heap_, a, b);
    case ExprKind::kDivide:
      return divide(a, b);
    case ExprKind::kFloorDivide:
      return floor_divide(a, b);
    case ExprKind::kModulo:
      return modulo(heap_, a, b);
    default:
      return power(a, b);
  }
}

}  // namespace monograph::jinja
