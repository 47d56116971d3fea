// value.name, value[key] and value[a:b:c], with the rules of Jinja's immutable sandbox.
#pragma once
#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// value.name: an attribute or method first, then an item.
Value get_attribute(Interpreter& interpreter, const Value& object, std::string_view name);
/// value.name without looking at items; nothing if there is no such attribute.
std::optional<Value> find_attribute(Interpreter& interpreter, const Value& object, std::string_view name);
/// value[key]: an item first, then, for text, an attribute.
Value get_item(Interpreter& interpreter, const Value& object, const Value& key);
/// value[start:stop:step]; absent parts are None.
Value get_slice(Interpreter& interpreter, const Value& object, const Value& start, const Value& stop,
                const Value& step);
/// The built-in method that `value.name` means, or nullptr.
Native find_method(const Value& object, std::string_view name);
/// As map(attribute=...), sort(attribute=...): "a.b.0" is a path. None gives the value itself.
Value get_path(Interpreter& interpreter, const Value& object, const Value& path);

}  // namespace monograph::jinja
