// Tokens to a Template.
#pragma once
#include <string_view>

#include "text/jinja/ast.h"

namespace monograph::jinja {

/// Throws Failure with a line: kUnreadableFile for what Jinja refuses too, kUnsupported for what only this engine
/// refuses, naming the construct.
Template parse_template(std::string_view source);

}  // namespace monograph::jinja
