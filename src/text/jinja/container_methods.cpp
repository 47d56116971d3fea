// The methods of Python's dict, list and tuple, of the loop variable and of cyclers; and the names that are refused.
#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/signature.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

const Dict& dict_of(Self self) { return *self.object<Dict>(); }

Value get(In in, Self self, Args args) {
  const Bound bound = bind_places("get", args, 1, 2);
  const Value* found = find_key(in.heap(), dict_of(self), *bound[0]);
  return found ? *found : bound.value(1);
}

Value items(In in, Self self, Args args) {
  bind_places("items", args, 0, 0);
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict_of(self).items) pairs.push_back(in.heap().tuple({key, value}));
  return Value(in.heap().sequence(SequenceType::kItems, std::move(pairs)));
}

Value keys(In in, Self self, Args args) {
  bind_places("keys", args, 0, 0);
  return Value(in.heap().sequence(SequenceType::kKeys, items_of(in.heap(), self)));
}

Value values(In in, Self self, Args args) {
  bind_places("values", args, 0, 0);
  std::vector<Value> all;
  for (const auto& [key, value] : dict_of(self).items) all.push_back(value);
  return Value(in.heap().sequence(SequenceType::kValues, std::move(all)));
}

Value copy_dict(In in, Self self, Args args) {
  bind_places("copy", args, 0, 0);
  auto* copy = in.heap().make<Dict>();
  in.heap().charge(static_cast<std::int64_t>(dict_of(self).items.size() * 2 * sizeof(Value)));
  copy->items = dict_of(self).items;
  return Value(copy);
}

Value index(In in, Self self, Args args) {
  const Bound bound = bind_places("index", args, 1, 3);
  const auto& all = self.object<Sequence>()->items;
  const Int size = static_cast<Int>(all.size());
  const auto edge = [&](std::size_t i, Int otherwise) {
    const Int at = bound.integer(i, otherwise, "a bound");
    return std::clamp<Int>(at < 0 ? at + size : at, 0, size);
  };
  for (Int i = edge(1, 0), stop = edge(2, size); i < stop; ++i) {
    if (equal(in.heap(), all[static_cast<std::size_t>(i)], *bound[0])) return Value::integer(i);
  }
  fail("the value is not in the " + type_name(self));
}

Value count(In in, Self self, Args args) {
  const Bound bound = bind_places("count", args, 1, 1);
  const auto& all = self.object<Sequence>()->items;
  return Value::integer(
      std::count_if(all.begin(), all.end(), [&](const Value& v) { return equal(in.heap(), v, *bound[0]); }));
}

Value copy_list(In in, Self self, Args args) {
  bind_places("copy", args, 0, 0);
  return in.heap().list(self.object<Sequence>()->items);
}

Value cycle(In, Self self, Args args) {
  if (!args.named.empty() || args.positional.empty()) fail("no items for cycling given");
  return args.positional[static_cast<std::size_t>(self.object<Loop>()->index0) % args.positional.size()];
}

Value changed(In in, Self self, Args args) {
  auto* loop = self.object<Loop>();
  const auto same = [&](const Value& a, const Value& b) { return equal(in.heap(), a, b); };
  const auto& last = loop->last_changed;
  if (last && std::equal(last->begin(), last->end(), args.positional.begin(), args.positional.end(), same))
    return Value(false);
  loop->last_changed = args.positional;
  return Value(true);
}

Value next(In, Self self, Args args) {
  bind_places("next", args, 0, 0);
  auto* cycler = self.object<Cycler>();
  const std::size_t at = cycler->position;
  cycler->position = (at + 1) % cycler->items.size();
  return cycler->items[at];
}

Value reset(In, Self self, Args args) {
  bind_places("reset", args, 0, 0);
  self.object<Cycler>()->position = 0;
  return Value();
}

template <std::size_t N>
bool is_in(const std::string_view (&names)[N], std::string_view name) {
  return std::find(names, names + N, name) != names + N;
}

constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
constexpr std::string_view kOtherStringNames[] = {"casefold", "encode",    "expandtabs", "format_map", "isidentifier",
                                                  "istitle",  "maketrans", "swapcase",   "translate"};
constexpr std::string_view kMarkupNames[] = {"unescape", "striptags", "escape"};
constexpr std::string_view kNumberNames[] = {"real",       "imag",      "numerator", "denominator", "conjugate",
                                             "bit_length", "bit_count", "to_bytes",  "from_bytes",  "as_integer_ratio",
                                             "is_integer", "hex",       "fromhex"};
constexpr std::string_view kRangeNames[] = {"start", "stop", "step"};
constexpr std::string_view kGeneratorNames[] = {"send",       "throw",   "close",       "gi_frame",
                                                "gi_running", "gi_code", "gi_yieldfrom"};

}  // namespace

Native find_dict_method(std::string_view name) {
  constexpr std::pair<std::string_view, Native> kMethods[] = {
      {"get", get}, {"items", items}, {"keys", keys}, {"values", values}, {"copy", copy_dict}};
  for (const auto& [method, native] : kMethods) {
    if (method == name) return native;
  }
  return nullptr;
}

Native find_sequence_method(const Sequence& sequence, std::string_view name) {
  const bool view = sequence.type == SequenceType::kKeys || sequence.type == SequenceType::kValues ||
                    sequence.type == SequenceType::kItems;
  if (view) return nullptr;
  if (name == "index") return index;
  if (name == "count") return count;
  return name == "copy" && sequence.type == SequenceType::kList ? copy_list : nullptr;
}

Native find_loop_method(std::string_view name) {
  return name == "cycle" ? cycle : name == "changed" ? changed : nullptr;
}

Native find_cycler_method(std::string_view name) { return name == "next" ? next : name == "reset" ? reset : nullptr; }

bool is_mutator(const Value& value, std::string_view name) {
  const auto* sequence = value.object<Sequence>();
  if (sequence && sequence->type == SequenceType::kList) return is_in(kListMutators, name);
  return value.object<Dict>() && is_in(kDictMutators, name);
}

bool has_python_attribute(const Value& value, std::string_view name) {
  if (const Text* text = value.text()) {
    return is_in(kOtherStringNames, name) || (text->markup && is_in(kMarkupNames, name));
  }
  if (is_number(value)) return is_in(kNumberNames, name);
  if (value.object<Dict>()) return name == "fromkeys";
  if (value.object<Iterator>()) return is_in(kGeneratorNames, name);
  const auto* sequence = value.object<Sequence>();
  if (!sequence) return false;
  if (sequence->type == SequenceType::kRange) return is_in(kRangeNames, name);
  if (sequence->type == SequenceType::kList || sequence->type == SequenceType::kTuple) return false;
  return name == "mapping" || name == "isdisjoint";
}

}  // namespace monograph::jinja
