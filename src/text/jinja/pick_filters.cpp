// Filters that apply a test or filter to each item: map, select, reject, selectattr, rejectattr.
#include "text/jinja/attributes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/signature.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

/// The arguments behind the first `n` positional ones.
Arguments without_first(Args args, std::size_t n) {
  Arguments rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(n), args.positional.end());
  rest.named = args.named;
  return rest;
}

Native named_filter(const Value& name) {
  const std::string& text = require_text(name, "map")->bytes;
  if (const Native native = find_filter(text)) return native;
  if (is_refused_filter(text)) unsupported("the filter '" + text + "'");
  fail("No filter named '" + text + "' found.");
}

Native named_test(const Value& name) {
  const std::string& text = require_text(name, "select")->bytes;
  if (const Native native = find_test(text)) return native;
  fail("No test named '" + text + "' found.");
}

Value map_attribute(In in, Self self, Args args) {
  const Bound bound = bind("map", args, {"attribute", "default"}, 1);
  std::vector<Value> mapped;
  for (const Value& item : items_of(in.heap(), self)) {
    Value value = get_path(in, item, *bound[0]);
    mapped.push_back(value.is_undefined() && !bound.none(1) ? *bound[1] : value);
  }
  return in.heap().iterator(std::move(mapped));
}

Value map(In in, Self self, Args args) {
  if (!truthy(self)) return in.heap().iterator({});
  if (args.positional.empty()) {
    for (const auto& [name, value] : args.named) {
      if (name == "attribute") return map_attribute(in, self, args);
    }
    fail("map requires a filter argument");
  }
  const std::vector<Value> items = items_of(in.heap(), self);
  std::vector<Value> mapped;
  if (items.empty()) return in.heap().iterator({});
  const Deeper deeper(in);
  const Native filter = named_filter(args.positional[0]);
  const Arguments rest = without_first(args, 1);
  for (const Value& item : items) {
    in.heap().step();
    mapped.push_back(filter(in, item, rest));
  }
  return in.heap().iterator(std::move(mapped));
}

Value pick(In in, Self self, Args args, bool by_attribute, bool wanted) {
  if (!truthy(self)) return in.heap().iterator({});
  if (by_attribute && args.positional.empty()) fail("Missing parameter for attribute name");
  const std::size_t n_paths = by_attribute ? 1 : 0;
  const bool tested = args.positional.size() > n_paths;
  const Arguments rest = tested ? without_first(args, n_paths + 1) : Arguments{};
  std::vector<Value> kept;
  const Deeper deeper(in);
  for (Value& item : items_of(in.heap(), self)) {
    in.heap().step();
    const Value looked_at = by_attribute ? get_path(in, item, args.positional[0]) : item;
    const bool passes = truthy(tested ? named_test(args.positional[n_paths])(in, looked_at, rest) : looked_at);
    if (passes == wanted) kept.push_back(std::move(item));
  }
  return in.heap().iterator(std::move(kept));
}
Value select(In in, Self self, Args args) { return pick(in, self, args, false, true); }
Value reject(In in, Self self, Args args) { return pick(in, self, args, false, false); }
Value selectattr(In in, Self self, Args args) { return pick(in, self, args, true, true); }
Value rejectattr(In in, Self self, Args args) { return pick(in, self, args, true, false); }

constexpr NamedNative kFilters[] = {
    {"map", map}, {"select", select}, {"reject", reject}, {"selectattr", selectattr}, {"rejectattr", rejectattr}};

}  // namespace

std::span<const NamedNative> pick_filters() { return kFilters; }

}  // namespace monograph::jinja
