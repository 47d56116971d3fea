// The loop variable: items are pulled one by one, so that a filter sees what the body has done so far.
#pragma once
#include <optional>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// Moves to the next item; false at the end.
bool advance(Loop& loop);
/// loop.name, or nothing.
std::optional<Value> loop_attribute(Loop& loop, std::string_view name);
/// All items that there are, walking ahead if a filter hides how many.
std::int64_t loop_length(Loop& loop);

}  // namespace monograph::jinja
