// Each family of filters lists its own; builtins.cpp searches them all.
#pragma once
#include <span>
#include <string_view>
#include <utility>

#include "text/jinja/value.h"

namespace monograph::jinja {

using NamedNative = std::pair<std::string_view, Native>;

std::span<const NamedNative> text_filters();
std::span<const NamedNative> number_filters();
std::span<const NamedNative> list_filters();
std::span<const NamedNative> pick_filters();

}  // namespace monograph::jinja
