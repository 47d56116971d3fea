// Filters about lists and dictionaries: first, sort, unique, groupby, dictsort, default ...
#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/attributes.h"
#include "text/jinja/characters.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/signature.h"
#include "text/jinja/text_functions.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

Value default_value(In, Self self, Args args) {
  const Bound bound = bind("default", args, {"default_value", "boolean"});
  const bool replace = self.is_undefined() || (bound.flag(1, false) && !truthy(self));
  if (!replace) return self;
  return bound[0] ? *bound[0] : Value::text("");
}

Value length_of(In, Self self, Args args) {
  bind_places("length", args, 0, 0);
  return Value::integer(length(self));
}

Value to_list(In in, Self self, Args args) {
  bind("list", args, {});
  return in.heap().list(items_of(in.heap(), self));
}

Value first(In in, Self self, Args args) {
  bind("first", args, {});
  if (auto* iterator = self.object<Iterator>()) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
  } else if (const std::vector<Value> items = items_of(in.heap(), self); !items.empty()) {
    return items.front();
  }
  return Value::undefined("No first item, sequence was empty.");
}

bool is_reversible(Self value) {
  return value.text() || value.object<Sequence>() || value.object<Dict>() || value.is_undefined();
}

Value last(In in, Self self, Args args) {
  bind("last", args, {});
  if (!is_reversible(self)) fail("'" + type_name(self) + "' object is not reversible");
  const std::vector<Value> items = items_of(in.heap(), self);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(In in, Self self, Args args) {
  bind("reverse", args, {});
  if (self.text()) return get_slice(in, self, Value(), Value(), Value::integer(-1));
  std::vector<Value> items = items_of(in.heap(), self);
  std::reverse(items.begin(), items.end());
  return is_reversible(self) ? in.heap().iterator(std::move(items)) : in.heap().list(std::move(items));
}

/// "a.b,c": the values at several paths, as a list to be compared.
Value sort_key(In in, const Value& item, const Value& attribute, bool case_sensitive) {
  std::vector<Value> paths = {attribute};
  if (const TextPtr* text = attribute.get<TextPtr>()) {
    paths.clear();
    for (TextPtr& path : split(in.heap(), *text, make_text(",").get(), -1)) paths.emplace_back(std::move(path));
  }
  std::vector<Value> keys;
  for (const Value& path : paths) {
    Value key = get_path(in, item, path);
    keys.push_back(case_sensitive ? std::move(key) : folded(in.heap(), key));
  }
  return in.heap().list(std::move(keys));
}

struct Keyed {
  Value key, item;
};

/// Stable; a reversed order keeps equal items as they were, as Python does.
void sort_by_key(In in, std::vector<Keyed>& items, bool reversed) {
  if (reversed) std::reverse(items.begin(), items.end());
  std::stable_sort(items.begin(), items.end(),
                   [&](const Keyed& a, const Keyed& b) { return less(in.heap(), a.key, b.key); });
  if (reversed) std::reverse(items.begin(), items.end());
}

Value sort(In in, Self self, Args args) {
  const Bound bound = bind("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> keyed;
  for (Value& item : items_of(in.heap(), self)) {
    Value key = sort_key(in, item, bound.value(2), bound.flag(1, false));
    keyed.push_back({std::move(key), std::move(item)});
  }
  sort_by_key(in, keyed, bound.flag(0, false));
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return in.heap().list(std::move(items));
}

Value dictsort(In in, Self self, Args args) {
  const Bound bound = bind("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = bound[1] && bound[1]->text() ? bound[1]->text()->bytes : bound[1] ? "" : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  const auto* dict = self.object<Dict>();
  if (!dict) check_defined(self), fail("dictsort() needs a dictionary, not '" + type_name(self) + "'");
  std::vector<Keyed> keyed;
  for (const auto& [name, value] : dict->items) {
    const Value& key = by == "key" ? name : value;
    keyed.push_back({bound.flag(0, false) ? key : folded(in.heap(), key), in.heap().tuple({name, value})});
  }
  sort_by_key(in, keyed, bound.flag(2, false));
  std::vector<Value> items;
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return in.heap().list(std::move(items));
}

Value unique(In in, Self self, Args args) {
  const Bound bound = bind("unique", args, {"case_sensitive", "attribute"});
  auto* seen = in.heap().make<Dict>();
  std::vector<Value> kept;
  for (Value& item : items_of(in.heap(), self)) {
    Value key = get_path(in, item, bound.value(1));
    if (!bound.flag(0, false)) key = folded(in.heap(), key);
    if (find_key(in.heap(), *seen, key)) continue;
    set_key(in.heap(), *seen, key, Value());
    kept.push_back(std::move(item));
  }
  return in.heap().iterator(std::move(kept));
}

Value group_key(In in, const Value& item, const Bound& bound) {
  Value key = get_path(in, item, *bound[0]);
  return key.is_undefined() && !bound.none(1) ? *bound[1] : key;
}

Value groupby(In in, Self self, Args args) {
  const Bound bound = bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = bound.flag(2, false);
  std::vector<Keyed> keyed;
  for (Value& item : items_of(in.heap(), self)) {
    Value key = group_key(in, item, bound);
    keyed.push_back({case_sensitive ? std::move(key) : folded(in.heap(), key), std::move(item)});
  }
  sort_by_key(in, keyed, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const std::size_t start = i;
    for (; i < keyed.size() && equal(in.heap(), keyed[start].key, keyed[i].key); ++i) members.push_back(keyed[i].item);
    if (members.empty()) members.push_back(keyed[i++].item);  // a key that does not equal itself
    const Value name = case_sensitive ? keyed[start].key : group_key(in, members[0], bound);
    auto* pair = in.heap().sequence(SequenceType::kTuple, {name, in.heap().list(std::move(members))});
    pair->group = true;
    groups.emplace_back(pair);
  }
  return in.heap().list(std::move(groups));
}

Value items_filter(In in, Self self, Args args) {
  bind("items", args, {});
  if (self.is_undefined()) return in.heap().iterator({});
  const auto* dict = self.object<Dict>();
  if (!dict) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict->items) pairs.push_back(in.heap().tuple({key, value}));
  return in.heap().iterator(std::move(pairs));
}

Value batch(In in, Self self, Args args) {
  const Bound bound = bind("batch", args, {"linecount", "fill_with"}, 1);
  const Int size = bound.integer(0, 1, "linecount");
  std::vector<Value> rows, row;
  for (Value& item : items_of(in.heap(), self)) {
    if (static_cast<Int>(row.size()) == size) {
      rows.push_back(in.heap().list(std::move(row)));
      row.clear();
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const Int missing = bound.none(1) ? 0 : size - static_cast<Int>(row.size());
    if (missing > kMaxRange) fail("batch() of more than " + std::to_string(kMaxRange) + " items");
    for (Int i = 0; i < missing; ++i) row.push_back(*bound[1]);
    rows.push_back(in.heap().list(std::move(row)));
  }
  return in.heap().iterator(std::move(rows));
}

Value slice(In in, Self self, Args args) {
  const Bound bound = bind("slice", args, {"slices", "fill_with"}, 1);
  const Int n_slices = bound.integer(0, 1, "slices");
  const std::vector<Value> items = items_of(in.heap(), self);
  if (n_slices == 0) fail("integer division or modulo by zero");
  if (n_slices > kMaxRange) fail("slice() into more than " + std::to_string(kMaxRange) + " parts");
  std::vector<Value> parts;
  std::size_t begin = 0;
  for (Int i = 0; i < n_slices; ++i) {
    const Int n_items = static_cast<Int>(items.size());
    const bool extra = i < n_items % n_slices;
    const std::size_t end = begin + static_cast<std::size_t>(n_items / n_slices + extra);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(begin),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!extra && !bound.none(1)) part.push_back(*bound[1]);
    parts.push_back(in.heap().list(std::move(part)));
    begin = end;
  }
  return in.heap().iterator(std::move(parts));
}

Value attr(In in, Self self, Args args) {
  const Bound bound = bind("attr", args, {"name"}, 1);
  check_defined(self);
  const std::string& name = require_text(*bound[0], "attr")->bytes;
  if (auto found = find_attribute(in, self, name)) return *found;
  return Value::undefined("'" + type_name(self) + " object' has no attribute '" + name + "'");
}

constexpr NamedNative kFilters[] = {
    {"default", default_value},
    {"d", default_value},
    {"length", length_of},
    {"count", length_of},
    {"list", to_list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"groupby", groupby},
    {"items", items_filter},
    {"batch", batch},
    {"slice", slice},
    {"attr", attr},
};

}  // namespace

Value folded(Heap& heap, const Value& value) {
  const TextPtr* text = value.get<TextPtr>();
  if (!text) return value;
  heap.scan((*text)->bytes.size() * 4);
  return Value(heap.counted(derived(to_lower((*text)->bytes), **text)));
}

std::span<const NamedNative> list_filters() { return kFilters; }

}  // namespace monograph::jinja
