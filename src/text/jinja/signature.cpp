#include "text/jinja/signature.h"

#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace monograph::jinja {

bool Bound::flag(std::size_t i, bool otherwise) const { return values_[i] ? truthy(*values_[i]) : otherwise; }

Int Bound::integer(std::size_t i, Int otherwise, const char* what) const {
  return values_[i] ? require_int(*values_[i], what) : otherwise;
}

Bound bind(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
           std::size_t n_required) {
  const std::string called = std::string(function) + "()";
  if (arguments.positional.size() > names.size()) {
    fail(called + " takes at most " + std::to_string(names.size()) + " arguments, " +
         std::to_string(arguments.positional.size()) + " were given");
  }
  std::vector<const Value*> values(names.size(), nullptr);
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) fail(called + " has no argument '" + name + "'");
    const Value*& place = values[static_cast<std::size_t>(at - names.begin())];
    if (place) fail(called + " got two values for '" + name + "'");
    place = &value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (!values[i]) fail(called + " needs its argument '" + std::string(*(names.begin() + i)) + "'");
  }
  return Bound(std::move(values));
}

Bound bind_places(std::string_view function, const Arguments& arguments, std::size_t n_required, std::size_t n_most) {
  const std::string called = std::string(function) + "()";
  const std::size_t n_given = arguments.positional.size();
  if (!arguments.named.empty()) fail(called + " takes no keyword arguments");
  if (n_given < n_required || n_given > n_most) {
    fail(called + " takes " + std::to_string(n_required) + " to " + std::to_string(n_most) + " arguments, " +
         std::to_string(n_given) + " were given");
  }
  std::vector<const Value*> values(n_most, nullptr);
  for (std::size_t i = 0; i < n_given; ++i) values[i] = &arguments.positional[i];
  return Bound(std::move(values));
}

const TextPtr& require_text(const Value& value, std::string_view function) {
  const TextPtr* text = value.get<TextPtr>();
  if (!text) fail(std::string(function) + "() needs a string, not '" + type_name(value) + "'");
  return *text;
}

}  // namespace monograph::jinja
