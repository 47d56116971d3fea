// Text to numbers, as Python's int() and float() read it.
#pragma once
#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// `text` without white space around it. Base 0 or 2 to 36; 0 goes by the prefix. Nothing if it is no integer.
std::optional<Int> parse_int(std::string_view text, Int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace monograph::jinja
