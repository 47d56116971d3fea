#include "text/jinja/attributes.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/arithmetic.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/loop.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

std::string described(const Value& value) { return value.is_none() ? "None" : type_name(value) + " object"; }

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined("'" + described(object) + "' has no attribute " + in_quotes(name));
}

Value no_element(Heap& heap, const Value& object, const Value& key) {
  if (key.text()) return no_attribute(object, key.text()->bytes);
  return Value::undefined(described(object) + " has no element " +
                          (is_number(key) ? to_repr(heap, key)->bytes : type_name(key)));
}

std::optional<Value> macro_attribute(Heap& heap, const Callable& callable, std::string_view name) {
  if (!callable.macro) return std::nullopt;
  if (name == "name") return heap.text(callable.name);
  if (name == "caller") return Value(callable.macro->uses_caller);
  if (name == "catch_kwargs") return Value(callable.macro->uses_kwargs);
  if (name == "catch_varargs") return Value(callable.macro->uses_varargs);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : callable.macro->parameter_names) names.push_back(heap.text(parameter));
  return heap.tuple(std::move(names));
}

std::optional<std::size_t> place(Int index, Int n_items) {
  if (index < 0) index += n_items;
  return index >= 0 && index < n_items ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
}

bool is_indexed(const Sequence& sequence) {
  return sequence.type == SequenceType::kList || sequence.type == SequenceType::kTuple ||
         sequence.type == SequenceType::kRange;
}

/// What Python's object[key] finds, or nothing where it would raise.
std::optional<Value> item(Heap& heap, const Value& object, const Value& key) {
  if (const auto* dict = object.object<Dict>()) {
    const auto* sequence = key.object<Sequence>();
    const bool hashable =
        !key.object<Dict>() && !is_set_like(key) && !(sequence && sequence->type == SequenceType::kList);
    if (!hashable) return std::nullopt;
    const Value* found = find_key(heap, *dict, key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  const auto index = as_int(key);
  if (!index) return std::nullopt;
  if (const auto* sequence = object.object<Sequence>(); sequence && is_indexed(*sequence)) {
    const auto at = place(*index, static_cast<Int>(sequence->items.size()));
    return at ? std::optional<Value>(sequence->items[*at]) : std::nullopt;
  }
  if (const TextPtr* text = object.get<TextPtr>()) {
    const auto at = place(*index, (*text)->n_chars);
    if (!at) return std::nullopt;
    heap.scan((*text)->ascii() ? 1 : (*text)->bytes.size());
    const std::size_t begin = (*text)->ascii() ? *at : offset_of((*text)->bytes, static_cast<std::int64_t>(*at));
    return Value(heap.counted(part_of(*text, begin, begin + read_character((*text)->bytes, begin).length)));
  }
  return std::nullopt;
}

/// The bounds of a slice over `n_items`, as Python's slice.indices() gives them.
struct Bounds {
  Int start, stop, step, count;
};

Bounds bounds_of(Int n_items, const Value& start, const Value& stop, const Value& step_value) {
  const Int step = step_value.is_none() ? 1 : require_int(step_value, "the step of a slice");
  if (step == 0) fail("slice step cannot be zero");
  const Int lowest = step > 0 ? 0 : -1, highest = step > 0 ? n_items : n_items - 1;
  const auto bound = [&](const Value& value, Int otherwise) {
    if (value.is_none()) return otherwise;
    const Int index = require_int(value, "a bound of a slice");
    return std::clamp(index < 0 ? index + n_items : index, lowest, highest);
  };
  const Int first = bound(start, step > 0 ? lowest : highest), last = bound(stop, step > 0 ? highest : lowest);
  const Int distance = step > 0 ? last - first : first - last, size = step > 0 ? step : -step;
  return {first, last, step, distance > 0 ? (distance - 1) / size + 1 : 0};
}

Value slice_text(Heap& heap, const TextPtr& text, const Bounds& bounds) {
  const auto begin_of = [&](Int index) {
    return text->ascii() ? static_cast<std::size_t>(index) : offset_of(text->bytes, static_cast<std::int64_t>(index));
  };
  heap.scan(text->bytes.size());
  if (bounds.count == 0) return Value(make_text("", false, text->markup));
  if (bounds.step == 1) {
    return Value(heap.counted(part_of(text, begin_of(bounds.start), begin_of(bounds.start + bounds.count))));
  }
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text->bytes.size(); at += read_character(text->bytes, at).length) starts.push_back(at);
  starts.push_back(text->bytes.size());
  TextBuilder builder;
  for (Int i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step) {
    builder.append_part(*text, starts[static_cast<std::size_t>(at)], starts[static_cast<std::size_t>(at) + 1]);
  }
  return Value(heap.counted(builder.finish(text->markup)));
}

Value slice_sequence(Heap& heap, const Sequence& sequence, const Bounds& bounds) {
  std::vector<Value> items;
  for (Int i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step) {
    items.push_back(sequence.items[static_cast<std::size_t>(at)]);
  }
  auto* made = heap.sequence(sequence.type, std::move(items));
  if (sequence.type != SequenceType::kRange) return Value(made);
  const auto place = [&sequence](Int index) { return add_ints(sequence.start, multiply_ints(index, sequence.step)); };
  made->start = place(bounds.start);
  made->stop = place(bounds.stop);
  made->step = multiply_ints(sequence.step, bounds.step);
  return Value(made);
}

}  // namespace

Native find_method(const Value& object, std::string_view name) {
  if (object.text()) return find_string_method(name);
  if (object.object<Dict>()) return find_dict_method(name);
  if (const auto* sequence = object.object<Sequence>()) return find_sequence_method(*sequence, name);
  if (object.object<Loop>()) return find_loop_method(name);
  if (object.object<Cycler>()) return find_cycler_method(name);
  return nullptr;
}

std::optional<Value> find_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
  Heap& heap = interpreter.heap();
  if (auto* space = object.object<Namespace>()) {
    const Value* found = space->find(name);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (const Native method = find_method(object, name)) {
    auto* bound = heap.make<Callable>();
    bound->name = name;
    bound->native = method;
    bound->self = object;
    return Value(bound);
  }
  const bool dunder = name.starts_with("__") && name.ends_with("__") && name.size() > 4;
  if (is_mutator(object, name) || dunder) {
    return Value::undefined("access to attribute " + in_quotes(name) + " of '" + type_name(object) +
                            "' object is unsafe.");
  }
  if (auto* loop = object.object<Loop>()) return loop_attribute(*loop, name);
  if (const auto* callable = object.object<Callable>()) return macro_attribute(heap, *callable, name);
  if (const auto* cycler = object.object<Cycler>(); cycler && name == "current") return cycler->items[cycler->position];
  if (const auto* pair = object.object<Sequence>(); pair && pair->group) {
    if (name == "grouper") return pair->items[0];
    if (name == "list") return pair->items[1];
  }
  if (has_python_attribute(object, name)) {
    unsupported("the attribute '" + std::string(name) + "' of '" + type_name(object) + "'");
  }
  return std::nullopt;
}

Value get_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
  check_defined(object);
  if (auto found = find_attribute(interpreter, object, name)) return *found;
  if (const auto* dict = object.object<Dict>()) {
    interpreter.heap().step(static_cast<std::int64_t>(dict->items.size() / 16));
    if (const Value* found = dict->find(name)) return *found;
  }
  return no_attribute(object, name);
}

Value get_item(Interpreter& interpreter, const Value& object, const Value& key) {
  check_defined(object);
  if (auto found = item(interpreter.heap(), object, key)) return *found;
  if (const Text* name = key.text()) {
    if (auto found = find_attribute(interpreter, object, name->bytes)) return *found;
  }
  return no_element(interpreter.heap(), object, key);
}

Value get_slice(Interpreter& interpreter, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  check_defined(object);
  if (const TextPtr* text = object.get<TextPtr>()) {
    return slice_text(interpreter.heap(), *text, bounds_of((*text)->n_chars, start, stop, step));
  }
  const auto* sequence = object.object<Sequence>();
  if (!sequence || !is_indexed(*sequence)) fail("'" + type_name(object) + "' object cannot be sliced");
  const Bounds bounds = bounds_of(static_cast<Int>(sequence->items.size()), start, stop, step);
  return slice_sequence(interpreter.heap(), *sequence, bounds);
}

Value get_path(Interpreter& interpreter, const Value& object, const Value& path) {
  if (path.is_none()) return object;
  if (!path.text()) return get_item(interpreter, object, path);
  Value value = object;
  std::string_view rest = path.text()->bytes;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc() && end == part.data() + part.size() && part[0] != '-';
    value = get_item(interpreter, value, number ? Value::integer(index) : Value::text(std::string(part)));
    if (part.size() == rest.size()) return value;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace monograph::jinja
