// Values to text, as Python's str() and repr() write them.
#pragma once
#include <string>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

/// str(value): what {{ value }} prints. Markup becomes plain text.
TextPtr to_str(Heap& heap, const Value& value);
/// Like str(), but text stays the text it is (markupsafe's soft_str).
TextPtr to_soft_str(Heap& heap, const Value& value);
/// repr(value)
TextPtr to_repr(Heap& heap, const Value& value);

std::string float_repr(double value);
std::string int_repr(Int value);
/// A string in quotes with escapes, as repr() writes it.
std::string in_quotes(std::string_view bytes);

}  // namespace monograph::jinja
