// Methods of Python's own types, by name. `known` names of Python that are missing here are refused, not undefined.
#pragma once
#include <string_view>

#include "text/jinja/value.h"

namespace monograph::jinja {

Native find_string_method(std::string_view name);
Native find_dict_method(std::string_view name);
Native find_sequence_method(const Sequence& sequence, std::string_view name);
Native find_loop_method(std::string_view name);
Native find_cycler_method(std::string_view name);

/// Python's type has an attribute of that name.
bool has_python_attribute(const Value& value, std::string_view name);
/// The sandbox forbids it, because it would change the value.
bool is_mutator(const Value& value, std::string_view name);

}  // namespace monograph::jinja
