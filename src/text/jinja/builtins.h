// The names that a template finds ready: filters, tests and global functions.
#pragma once
#include <string_view>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// nullptr if there is none of that name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);
Native find_global(std::string_view name);
/// Jinja has a filter or global of that name and this engine refuses it.
bool is_refused_filter(std::string_view name);
bool is_refused_global(std::string_view name);

}  // namespace monograph::jinja
