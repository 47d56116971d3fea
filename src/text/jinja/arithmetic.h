// Python's arithmetic: integers that stay exact, floor division, mixed comparison.
#pragma once
#include <optional>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

enum class Order { kLess, kEqual, kGreater, kUnordered };

/// A bool, an int or a float.
bool is_number(const Value& value);
/// The integer that a bool or int stands for.
std::optional<Int> as_int(const Value& value);
/// The same for any number.
std::optional<double> as_double(const Value& value);
/// Fails with "<what> must be an integer" for anything else.
Int require_int(const Value& value, const char* what);
/// a + b and a * b, refused past kMaxInt.
Int add_ints(Int a, Int b);
Int multiply_ints(Int a, Int b);
/// Exact, also between an int and a float.
Order compare_numbers(const Value& a, const Value& b);
/// int(value) of a float; fails for infinities and NaN.
Int truncated(double value);

/// a + b and so on, for numbers, strings, lists and tuples.
Value add(Heap& heap, const Value& a, const Value& b);
Value subtract(const Value& a, const Value& b);
Value multiply(Heap& heap, const Value& a, const Value& b);
Value divide(const Value& a, const Value& b);
Value floor_divide(const Value& a, const Value& b);
Value modulo(Heap& heap, const Value& a, const Value& b);
Value power(const Value& a, const Value& b);
Value negate(const Value& a);
Value plus(const Value& a);

}  // namespace monograph::jinja
