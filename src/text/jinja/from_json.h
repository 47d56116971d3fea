// The caller's variables as template values.
#pragma once
#include <string_view>

#include "text/chat_template.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

/// A variable of the given name. Its strings count as input (TK11), but for those the server itself provides: the top
/// level `..._token` variables, and roles that are a plain word, which templates build control tokens from.
Value from_variable(Heap& heap, std::string_view name, const TemplateValue& json);

}  // namespace monograph::jinja
