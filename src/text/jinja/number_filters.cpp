// Filters about numbers: int, float, abs, round, sum, min, max.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/arithmetic.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/parse_number.h"
#include "text/jinja/print.h"
#include "text/jinja/signature.h"
#include "text/jinja/text_functions.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

std::string_view trimmed(In in, const TextPtr& text, TextPtr& holder) {
  holder = stripped(in.heap(), text, nullptr, Side::kBoth);
  return holder->bytes;
}

Value to_int(In in, Self self, Args args) {
  const Bound bound = bind("int", args, {"default", "base"});
  check_defined(self);
  if (const auto integer = as_int(self)) return Value::integer(*integer);
  std::optional<double> real;
  if (const double* number = self.get<double>()) {
    if (std::isinf(*number)) fail("cannot convert float infinity to integer");
    real = *number;
  } else if (const TextPtr* text = self.get<TextPtr>()) {
    const Int base = bound.integer(1, 10, "base");
    TextPtr holder;
    const std::string_view digits = trimmed(in, *text, holder);
    if (const auto integer = parse_int(digits, base)) return Value::integer(*integer);
    real = parse_float(digits);
  }
  const bool usable = real && std::isfinite(*real);
  return usable ? Value::integer(truncated(*real)) : bound[0] ? *bound[0] : Value::integer(0);
}

Value to_float(In in, Self self, Args args) {
  const Bound bound = bind("float", args, {"default"});
  check_defined(self);
  if (const auto number = as_double(self)) return Value(*number);
  if (const TextPtr* text = self.get<TextPtr>()) {
    TextPtr holder;
    if (const auto number = parse_float(trimmed(in, *text, holder))) return Value(*number);
  }
  return bound[0] ? *bound[0] : Value(0.0);
}

Value absolute(In, Self self, Args args) {
  bind_places("abs", args, 0, 0);
  if (const double* real = self.get<double>()) return Value(std::fabs(*real));
  const auto integer = as_int(self);
  if (!integer) fail("bad operand type for abs(): '" + type_name(self) + "'");
  return *integer < 0 ? negate(self) : Value::integer(*integer);
}

/// Rounds half to even at a power of ten, as Python's round() does for integers.
Int rounded_int(Int value, Int precision) {
  if (precision >= 0) return value;
  if (precision < -30) return 0;  // no integer here is half as large as 10^31
  Int unit = 1;
  for (Int i = 0; i > precision; --i) unit *= 10;
  Int below = value / unit * unit;
  if (below > value) below -= unit;
  const Int rest = value - below, twice = unit - rest;
  const bool up = rest > twice || (rest == twice && (below / unit) % 2 != 0);
  return up ? below + unit : below;
}

/// The decimal that printf writes is rounded correctly, ties to even, as Python's round() does for floats.
double rounded_float(double value, Int precision) {
  if (!std::isfinite(value) || precision > 308) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

Value round_with(Self self, Int precision, double (*function)(double)) {
  if (precision > 300 || precision < -300) fail("the precision of round() is too large");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value(function(*as_double(self) * unit) / unit);
}

Value round_number(In, Self self, Args args) {
  const Bound bound = bind("round", args, {"precision", "method"});
  const std::string method = bound[1] && bound[1]->text() ? bound[1]->text()->bytes : "common";
  if (bound[1] && !bound[1]->text()) fail("method must be common, ceil or floor");
  check_defined(self);
  if (!is_number(self)) fail("round() needs a number, not '" + type_name(self) + "'");
  const Int precision = bound.integer(0, 0, "precision");
  if (method == "ceil") return round_with(self, precision, std::ceil);
  if (method == "floor") return round_with(self, precision, std::floor);
  if (method != "common") fail("method must be common, ceil or floor");
  if (const auto integer = as_int(self)) return Value::integer(rounded_int(*integer, precision));
  return Value(rounded_float(*self.get<double>(), precision));
}

Value sum(In in, Self self, Args args) {
  const Bound bound = bind("sum", args, {"attribute", "start"});
  Value total = bound[1] ? *bound[1] : Value::integer(0);
  if (total.text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : items_of(in.heap(), self)) {
    total = add(in.heap(), total, bound.none(0) ? item : get_path(in, item, *bound[0]));
  }
  return total;
}

Value sort_key(In in, const Value& item, const Bound& bound) {
  Value key = bound.none(1) ? item : get_path(in, item, *bound[1]);
  return bound.flag(0, false) ? key : folded(in.heap(), key);
}

Value extreme(In in, Self self, Args args, const char* name, bool largest) {
  const Bound bound = bind(name, args, {"case_sensitive", "attribute"});
  const std::vector<Value> items = items_of(in.heap(), self);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  Value best_key = sort_key(in, items[0], bound);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value key = sort_key(in, items[i], bound);
    if (!(largest ? less(in.heap(), best_key, key) : less(in.heap(), key, best_key))) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}
Value smallest(In in, Self self, Args args) { return extreme(in, self, args, "min", false); }
Value largest(In in, Self self, Args args) { return extreme(in, self, args, "max", true); }

constexpr NamedNative kFilters[] = {
    {"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", round_number},
    {"sum", sum},    {"min", smallest},   {"max", largest},
};

}  // namespace

std::span<const NamedNative> number_filters() { return kFilters; }

}  // namespace monograph::jinja
