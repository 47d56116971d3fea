// Arguments of a built-in function, matched to its parameters as Python matches them.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// One pointer per parameter, null where the caller gave nothing. Points into the Arguments it was made from.
class Bound {
 public:
  explicit Bound(std::vector<const Value*> values) : values_(std::move(values)) {}
  const Value* operator[](std::size_t i) const { return values_[i]; }
  /// The argument, or None where it is absent.
  Value value(std::size_t i) const { return values_[i] ? *values_[i] : Value(); }
  /// Absent or None.
  bool none(std::size_t i) const { return !values_[i] || values_[i]->is_none(); }
  bool flag(std::size_t i, bool otherwise) const;
  Int integer(std::size_t i, Int otherwise, const char* what) const;

 private:
  std::vector<const Value*> values_;
};

/// Parameters by name; the first `n_required` must be given. Fails for too many, unknown or repeated arguments.
Bound bind(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
           std::size_t n_required = 0);
/// Parameters that only have places, as most methods of Python's own types.
Bound bind_places(std::string_view function, const Arguments& arguments, std::size_t n_required, std::size_t n_most);

/// The text of an argument, or a failure that says what was given instead.
const TextPtr& require_text(const Value& value, std::string_view function);

}  // namespace monograph::jinja
