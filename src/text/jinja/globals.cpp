// Functions that every template finds: range, dict, namespace, raise_exception, strftime_now, cycler, joiner.
#include <ctime>

#include "text/jinja/arithmetic.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/signature.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

Value range(In in, Self, Args args) {
  const Bound bound = bind_places("range", args, 1, 3);
  const Int first = require_int(*bound[0], "an argument of range()");
  const Int start = bound[1] ? first : 0, stop = bound.integer(1, first, "an argument of range()");
  const Int step = bound.integer(2, 1, "an argument of range()");
  if (step == 0) fail("range() arg 3 must not be zero");
  const Int distance = step > 0 ? stop - start : start - stop, size = step > 0 ? step : -step;
  const Int n_items = distance > 0 ? (distance - 1) / size + 1 : 0;
  if (n_items > kMaxRange) {
    fail("Range too big. The sandbox blocks ranges larger than " + std::to_string(kMaxRange) + " items.");
  }
  std::vector<Value> items;
  for (Int i = 0; i < n_items; ++i) items.push_back(Value::integer(start + i * step));
  in.heap().step(static_cast<std::int64_t>(n_items));
  auto* made = in.heap().sequence(SequenceType::kRange, std::move(items));
  made->start = start, made->stop = stop, made->step = step;
  return Value(made);
}

Dict* dict_from(In in, Args args) {
  auto* dict = in.heap().make<Dict>();
  if (args.positional.size() > 1) fail("dict() takes at most 1 argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (const auto* other = source.object<Dict>()) {
      in.heap().charge(static_cast<std::int64_t>(other->items.size() * 2 * sizeof(Value)));
      dict->items = other->items;
    } else {
      for (const Value& item : items_of(in.heap(), source)) {
        const std::vector<Value> pair = items_of(in.heap(), item);
        if (pair.size() != 2) fail("dict() needs pairs, one has length " + std::to_string(pair.size()));
        set_key(in.heap(), *dict, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) set_key(in.heap(), *dict, in.heap().text(name), value);
  return dict;
}

Value dict(In in, Self, Args args) { return Value(dict_from(in, args)); }

Value make_namespace(In in, Self, Args args) {
  auto* space = in.heap().make<Namespace>();
  for (const auto& [key, value] : dict_from(in, args)->items) {
    if (!key.text()) unsupported("a namespace with a name that is no string");
    const std::string& name = key.text()->bytes;
    if (name.starts_with('_')) fail("a namespace may not hold '" + name + "': it starts with an underscore");
    in.heap().charge(sizeof(Value) + 64);
    space->attributes.emplace_back(name, value);
  }
  return Value(space);
}

Value raise_exception(In in, Self, Args args) {
  const Bound bound = bind("raise_exception", args, {"message"}, 1);
  throw RaisedByTemplate(to_str(in.heap(), *bound[0])->bytes);
}

/// What Python's datetime fills in by itself: no zone, and no microseconds here.
std::string python_directives(const std::string& format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const bool directive = format[i] == '%' && i + 1 < format.size();
    if (!directive) {
      out.push_back(format[i]);
      continue;
    }
    const char letter = format[++i];
    if (letter == 'f') {
      out += "000000";
    } else if (letter != 'z' && letter != 'Z') {
      out += {'%', letter};
    }
  }
  return out;
}

Value strftime_now(In in, Self, Args args) {
  const Bound bound = bind("strftime_now", args, {"format"}, 1);
  // A letter at the end tells an empty result from one that did not fit.
  const std::string format = python_directives(require_text(*bound[0], "strftime_now")->bytes) + "x";
  if (format.size() > 4096) fail("the format of strftime_now() is too long");
  const std::time_t now = in.now();
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string out(format.size() * 64 + 256, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  if (out.empty()) fail("strftime_now() gave too long a text");
  out.pop_back();
  return in.heap().text(std::move(out));
}

Value cycler(In in, Self, Args args) {
  if (args.positional.empty() || !args.named.empty()) fail("at least one item has to be provided");
  auto* made = in.heap().make<Cycler>();
  made->items = args.positional;
  return Value(made);
}

// Nothing the first time, then its separator: a cycler of two whose second item stays.
Value join_once(In, Self self, Args args) {
  bind("joiner", args, {});
  auto* state = self.object<Cycler>();
  const Value& value = state->items[state->position];
  state->position = 1;
  return value;
}

Value joiner(In in, Self, Args args) {
  const Bound bound = bind("joiner", args, {"sep"});
  auto* state = in.heap().make<Cycler>();
  state->items = {Value::text(""), bound[0] ? *bound[0] : Value::text(", ")};
  auto* function = in.heap().make<Callable>();
  function->name = "joiner";
  function->native = join_once;
  function->self = Value(state);
  return Value(function);
}

constexpr NamedNative kGlobals[] = {{"range", range},
                                    {"dict", dict},
                                    {"namespace", make_namespace},
                                    {"raise_exception", raise_exception},
                                    {"strftime_now", strftime_now},
                                    {"cycler", cycler},
                                    {"joiner", joiner}};

}  // namespace

Native find_global(std::string_view name) {
  for (const auto& [global, native] : kGlobals) {
    if (global == name) return native;
  }
  return nullptr;
}

}  // namespace monograph::jinja
