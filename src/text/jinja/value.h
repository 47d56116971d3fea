// What a template computes with: Python's values, as far as templates meet them.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace monograph::jinja {

/// Python's integers have no bound; past kMaxInt they are refused. The bits above it let sums and small products of
/// such integers be formed without a check.
using Int = __int128;
constexpr Int kMaxInt = Int{1} << 100;

struct Sequence;
struct Dict;
struct Iterator;
struct Namespace;
struct Callable;
struct Loop;
struct Cycler;

struct None {};
/// Jinja's Undefined: prints as nothing, is false and empty; anything else fails with `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

/// Small and freely copied. Objects live in the Heap of one rendering and never change, but for the state that Jinja
/// itself lets a template change (namespace, iterator, loop, cycler).
class Value {
 public:
  using Storage = std::variant<None, Undefined, bool, Int, double, TextPtr, Sequence*, Dict*, Iterator*, Namespace*,
                               Callable*, Loop*, Cycler*>;
  Value() : storage_(None{}) {}
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, Value>) explicit Value(T&& value) : storage_(std::forward<T>(value)) {}

  static Value undefined(std::string why) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
  }
  static Value integer(Int value) { return Value(Storage(std::in_place_type<Int>, value)); }
  static Value text(std::string bytes) { return Value(make_text(std::move(bytes))); }

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&storage_);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(storage_);
  }
  const Text* text() const { return is<TextPtr>() ? std::get<TextPtr>(storage_).get() : nullptr; }
  template <typename T>  // a heap object, or nullptr
  T* object() const {
    return is<T*>() ? std::get<T*>(storage_) : nullptr;
  }

  bool is_none() const { return is<None>(); }
  bool is_undefined() const { return is<Undefined>(); }
  const Storage& storage() const { return storage_; }

 private:
  Storage storage_;
};

struct Object {
  virtual ~Object() = default;
};

enum class SequenceType { kList, kTuple, kRange, kKeys, kValues, kItems };

/// A list, a tuple, a range or a dictionary's view.
struct Sequence : Object {
  SequenceType type = SequenceType::kList;
  std::vector<Value> items;
  Int start = 0, stop = 0, step = 1;  ///< Of a range, which prints them.
  bool group = false;                 ///< A pair of groupby: also has .grouper and .list.
};

/// Keeps insertion order, as Python's dict does.
struct Dict : Object {
  std::vector<std::pair<Value, Value>> items;
  const Value* find(std::string_view key) const;
};

/// What Python's generators and reversed() give: can be walked once.
struct Iterator : Object {
  std::vector<Value> items;
  std::size_t next = 0;
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
};

struct Cycler : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

/// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  bool empty() const { return positional.empty() && named.empty(); }
};

class Interpreter;
struct MacroNode;
struct Scope;
using Native = Value (*)(Interpreter&, const Value& self, const Arguments&);

/// A macro (or the caller() of a call block), or a built-in function or method bound to `self`.
struct Callable : Object {
  std::string name;
  Native native = nullptr;
  Value self;
  const MacroNode* macro = nullptr;
  Scope* closure = nullptr;
};

/// The `loop` variable of one for statement.
struct Loop : Object {
  std::vector<Value> source;                  ///< What is walked over.
  std::size_t next = 0;                       ///< Of `source`.
  std::function<bool(const Value&)> accepts;  ///< The `if` of the statement; empty: everything.
  std::deque<Value> ahead;                    ///< Accepted already, not yet seen by the body.
  std::optional<Value> previous, current;
  std::int64_t index0 = -1;
  std::int64_t depth0 = 0;
  std::optional<std::vector<Value>> last_changed;
  const void* recursive_for = nullptr;  ///< The statement, if it is `recursive`.
  Scope* scope = nullptr;               ///< Where it stands.
};

/// "int", "str", "dict" ...: Python's name of the type, for messages.
std::string type_name(const Value& value);

}  // namespace monograph::jinja
