// Which graph serves what. Explicit, never guessed from a shape.
#pragma once
#include <string_view>

namespace monograph {

enum class GraphRole { kExtend, kDecode };

constexpr std::string_view to_string(GraphRole role) { return role == GraphRole::kExtend ? "extend" : "decode"; }

}  // namespace monograph
