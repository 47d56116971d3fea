#include "text/jinja/arithmetic.h"

#include <cmath>

#include "text/jinja/escape.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"

namespace monograph::jinja {
namespace {

[[noreturn]] void no_operator(const char* op, const Value& a, const Value& b) {
  check_defined(a), check_defined(b);
  if (is_set_like(a) || is_set_like(b)) unsupported("a set made of a dictionary's keys or items");
  fail(std::string("unsupported operand types for ") + op + ": '" + type_name(a) + "' and '" + type_name(b) + "'");
}

[[noreturn]] void overflow() { unsupported("an integer of more than 100 bits"); }

bool both_int(const Value& a, const Value& b) { return as_int(a) && as_int(b); }

Order order_of(bool is_less, bool is_equal) {
  return is_less ? Order::kLess : is_equal ? Order::kEqual : Order::kGreater;
}

Order compare_int_float(Int a, double b) {
  constexpr double kLimit = 0x1p126;
  if (std::isnan(b)) return Order::kUnordered;
  if (b > kLimit) return Order::kLess;
  if (b < -kLimit) return Order::kGreater;
  const double whole = std::trunc(b);
  const Int integer = static_cast<Int>(whole);
  if (a != integer) return order_of(a < integer, false);
  return order_of(b > whole, b == whole);
}

Value repeat_text(Heap& heap, const TextPtr& text, Int times) {
  if (times <= 0 || text->bytes.empty()) return Value(make_text("", false, text->markup));
  heap.check_text_size(times > kMaxOutputBytes ? times : times * static_cast<Int>(text->bytes.size()));
  TextBuilder builder;
  for (Int i = 0; i < times; ++i) builder.append(*text);
  return Value(heap.counted(builder.finish(text->markup)));
}

Value repeat_sequence(Heap& heap, const Sequence& sequence, Int times) {
  // More than the heap may hold, whatever the items are; smaller products cannot overflow.
  if (times > kMaxHeapBytes) heap.charge(kMaxHeapBytes + 1);
  const Int n_items = times <= 0 ? 0 : times * static_cast<Int>(sequence.items.size());
  if (n_items > kMaxHeapBytes / static_cast<Int>(sizeof(Value))) heap.charge(kMaxHeapBytes + 1);
  std::vector<Value> items;
  for (Int i = 0; n_items > 0 && i < times; ++i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return Value(heap.sequence(sequence.type, std::move(items)));
}

bool can_repeat(const Value& value) {
  const auto* sequence = value.object<Sequence>();
  return value.text() ||
         (sequence && (sequence->type == SequenceType::kList || sequence->type == SequenceType::kTuple));
}

Value repeat(Heap& heap, const Value& value, Int times) {
  if (const TextPtr* text = value.get<TextPtr>()) return repeat_text(heap, *text, times);
  return repeat_sequence(heap, *value.object<Sequence>(), times);
}

Value add_text(Heap& heap, const Text& a, const Text& b) {
  const bool markup = a.markup || b.markup;
  TextBuilder builder;
  const auto append = [&](const Text& part) {
    if (markup && !part.markup) {
      builder.append(*escaped_html(part));
    } else {
      builder.append(part);
    }
  };
  append(a), append(b);
  return Value(heap.counted(builder.finish(markup)));
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  if (base < 0 && exponent != std::floor(exponent) && std::isfinite(exponent)) unsupported("a complex number");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) fail("the result of ** is too large");
  return Value(result);
}

Value int_power(Int base, Int exponent) {
  if (exponent < 0) return float_power(static_cast<double>(base), static_cast<double>(exponent));
  Int result = 1;
  while (exponent > 0) {
    if (exponent & 1) result = multiply_ints(result, base);
    exponent >>= 1;
    if (exponent > 0) base = multiply_ints(base, base);
  }
  return Value::integer(result);
}

double float_floor_divide(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double float_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

}  // namespace

Int add_ints(Int a, Int b) {
  const Int sum = a + b;
  if (sum > kMaxInt || sum < -kMaxInt) overflow();
  return sum;
}

Int multiply_ints(Int a, Int b) {
  Int product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxInt || product < -kMaxInt) overflow();
  return product;
}

bool is_number(const Value& value) { return value.is<bool>() || value.is<Int>() || value.is<double>(); }

std::optional<Int> as_int(const Value& value) {
  if (const bool* flag = value.get<bool>()) return *flag ? 1 : 0;
  if (const Int* integer = value.get<Int>()) return *integer;
  return std::nullopt;
}

std::optional<double> as_double(const Value& value) {
  if (const double* real = value.get<double>()) return *real;
  if (const auto integer = as_int(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

Int require_int(const Value& value, const char* what) {
  check_defined(value);
  const auto integer = as_int(value);
  if (!integer) fail(std::string(what) + " must be an integer, not '" + type_name(value) + "'");
  return *integer;
}

Int truncated(double value) {
  if (std::isnan(value)) fail("cannot convert float NaN to integer");
  if (std::isinf(value)) fail("cannot convert float infinity to integer");
  if (std::fabs(value) > 0x1p100) overflow();
  return static_cast<Int>(value);
}

Order compare_numbers(const Value& a, const Value& b) {
  const auto ia = as_int(a), ib = as_int(b);
  if (ia && ib) return order_of(*ia < *ib, *ia == *ib);
  if (ia) return compare_int_float(*ia, *b.get<double>());
  if (ib) {
    const Order order = compare_int_float(*ib, *a.get<double>());
    return order == Order::kLess ? Order::kGreater : order == Order::kGreater ? Order::kLess : order;
  }
  const double x = *a.get<double>(), y = *b.get<double>();
  return std::isnan(x) || std::isnan(y) ? Order::kUnordered : order_of(x < y, x == y);
}

Value add(Heap& heap, const Value& a, const Value& b) {
  if (a.text() && b.text()) return add_text(heap, *a.text(), *b.text());
  if (both_int(a, b)) return Value::integer(add_ints(*as_int(a), *as_int(b)));
  if (is_number(a) && is_number(b)) return Value(*as_double(a) + *as_double(b));
  const auto *left = a.object<Sequence>(), *right = b.object<Sequence>();
  if (!left || !right || left->type != right->type || !can_repeat(a)) no_operator("+", a, b);
  std::vector<Value> items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return Value(heap.sequence(left->type, std::move(items)));
}

Value subtract(const Value& a, const Value& b) {
  if (both_int(a, b)) return Value::integer(add_ints(*as_int(a), -*as_int(b)));
  if (!is_number(a) || !is_number(b)) no_operator("-", a, b);
  return Value(*as_double(a) - *as_double(b));
}

Value multiply(Heap& heap, const Value& a, const Value& b) {
  if (can_repeat(a) && as_int(b)) return repeat(heap, a, *as_int(b));
  if (can_repeat(b) && as_int(a)) return repeat(heap, b, *as_int(a));
  if (both_int(a, b)) return Value::integer(multiply_ints(*as_int(a), *as_int(b)));
  if (!is_number(a) || !is_number(b)) no_operator("*", a, b);
  return Value(*as_double(a) * *as_double(b));
}

Value divide(const Value& a, const Value& b) {
  if (!is_number(a) || !is_number(b)) no_operator("/", a, b);
  if (*as_double(b) == 0) fail("division by zero");
  if (both_int(a, b)) return Value(static_cast<double>(static_cast<long double>(*as_int(a)) / *as_int(b)));
  return Value(*as_double(a) / *as_double(b));
}

Value floor_divide(const Value& a, const Value& b) {
  if (!is_number(a) || !is_number(b)) no_operator("//", a, b);
  if (*as_double(b) == 0) fail("division by zero");
  if (!both_int(a, b)) return Value(float_floor_divide(*as_double(a), *as_double(b)));
  const Int x = *as_int(a), y = *as_int(b);
  if (y == -1) return subtract(Value::integer(0), a);
  return Value::integer(x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0));
}

Value modulo(Heap& heap, const Value& a, const Value& b) {
  if (a.text()) return Value(printf_style(heap, *a.text(), b));
  if (!is_number(a) || !is_number(b)) no_operator("%", a, b);
  if (*as_double(b) == 0) fail("modulo by zero");
  if (!both_int(a, b)) return Value(float_modulo(*as_double(a), *as_double(b)));
  const Int x = *as_int(a), y = *as_int(b);
  if (y == -1) return Value::integer(0);
  const Int remainder = x % y;
  return Value::integer(remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder);
}

Value power(const Value& a, const Value& b) {
  if (!is_number(a) || !is_number(b)) no_operator("**", a, b);
  if (both_int(a, b)) return int_power(*as_int(a), *as_int(b));
  return float_power(*as_double(a), *as_double(b));
}

Value negate(const Value& a) {
  if (const double* real = a.get<double>()) return Value(-*real);
  if (!as_int(a)) check_defined(a), fail("bad operand type for unary -: '" + type_name(a) + "'");
  return subtract(Value::integer(0), a);
}

Value plus(const Value& a) {
  if (a.is<double>()) return a;
  if (!as_int(a)) check_defined(a), fail("bad operand type for unary +: '" + type_name(a) + "'");
  return Value::integer(*as_int(a));
}

}  // namespace monograph::jinja
