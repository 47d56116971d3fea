#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/arithmetic.h"
#include "text/jinja/loop.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

bool is_plain_sequence(const Sequence& s) {
  return s.type == SequenceType::kList || s.type == SequenceType::kTuple || s.type == SequenceType::kRange;
}

/// Walks two values side by side; counts how deep it is, as it recurses.
class Comparison {
 public:
  explicit Comparison(Heap& heap) : heap_(heap) {}

  bool equal(const Value& a, const Value& b) {
    heap_.step();
    if (is_number(a) && is_number(b)) return compare_numbers(a, b) == Order::kEqual;
    if (a.text() && b.text()) return same_text(*a.text(), *b.text());
    if (a.storage().index() != b.storage().index()) return false;
    if (const auto* sequence = a.object<Sequence>()) return equal_sequences(*sequence, *b.object<Sequence>());
    if (const auto* dict = a.object<Dict>()) return equal_dicts(*dict, *b.object<Dict>());
    return same_object(a, b);
  }

  /// a < b, or a <= b with `or_equal`.
  bool less(const Value& a, const Value& b, bool or_equal) {
    heap_.step();
    check_defined(a), check_defined(b);
    if (is_number(a) && is_number(b)) {
      const Order order = compare_numbers(a, b);
      return order == Order::kLess || (or_equal && order == Order::kEqual);
    }
    if (a.text() && b.text()) {
      heap_.scan(std::min(a.text()->bytes.size(), b.text()->bytes.size()));
      return or_equal ? a.text()->bytes <= b.text()->bytes : a.text()->bytes < b.text()->bytes;
    }
    const auto *left = a.object<Sequence>(), *right = b.object<Sequence>();
    const bool ordered = left && right && left->type == right->type &&
                         (left->type == SequenceType::kList || left->type == SequenceType::kTuple);
    if (!ordered && (is_set_like(a) || is_set_like(b))) unsupported("comparing a dictionary's keys or items as sets");
    if (!ordered) fail("'" + type_name(a) + "' and '" + type_name(b) + "' have no order");
    return less_sequences(left->items, right->items, or_equal);
  }

 private:
  struct Level {
    explicit Level(int& depth) : depth_(depth) {
      if (++depth_ > kMaxValueDepth) fail("values are nested too deeply to be compared");
    }
    ~Level() { --depth_; }
    int& depth_;
  };

  bool same_text(const Text& a, const Text& b) {
    if (a.bytes.size() != b.bytes.size()) return false;
    heap_.scan(a.bytes.size());
    return a.bytes == b.bytes;
  }

  bool equal_sequences(const Sequence& a, const Sequence& b) {
    if (&a == &b) return true;
    if (a.type != b.type || a.items.size() != b.items.size()) return false;
    const Level level(depth_);
    const auto same = [this](const Value& x, const Value& y) { return equal(x, y); };
    if (is_plain_sequence(a)) return std::equal(a.items.begin(), a.items.end(), b.items.begin(), same);
    if (a.type == SequenceType::kValues) return false;  // views of values are equal only to themselves
    const auto in_b = [&](const Value& x) {
      return std::any_of(b.items.begin(), b.items.end(), [&](const Value& y) { return equal(x, y); });
    };
    return std::all_of(a.items.begin(), a.items.end(), in_b);
  }

  bool equal_dicts(const Dict& a, const Dict& b) {
    if (&a == &b) return true;
    if (a.items.size() != b.items.size()) return false;
    const Level level(depth_);
    return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
      const Value* other = find_key(heap_, b, item.first);
      return other && equal(item.second, *other);
    });
  }

  static bool same_object(const Value& a, const Value& b) {
    if (a.is_none() || a.is_undefined()) return true;
    return a.object<Iterator>() == b.object<Iterator>() && a.object<Namespace>() == b.object<Namespace>() &&
           a.object<Callable>() == b.object<Callable>() && a.object<Loop>() == b.object<Loop>() &&
           a.object<Cycler>() == b.object<Cycler>();
  }

  bool less_sequences(const std::vector<Value>& a, const std::vector<Value>& b, bool or_equal) {
    const Level level(depth_);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(a[i], b[i])) return less(a[i], b[i], or_equal);
    }
    return or_equal ? a.size() <= b.size() : a.size() < b.size();
  }

  Heap& heap_;
  int depth_ = 0;
};

std::vector<Value> characters_of(Heap& heap, const TextPtr& text) {
  std::vector<Value> items;
  heap.step(text->n_chars);
  heap.charge(text->n_chars * static_cast<std::int64_t>(sizeof(Value) + sizeof(Text)));
  for (std::size_t at = 0; at < text->bytes.size();) {
    const std::size_t end = at + read_character(text->bytes, at).length;
    TextBuilder builder;
    builder.append_part(*text, at, end);
    items.emplace_back(builder.finish());
    at = end;
  }
  return items;
}

}  // namespace

bool is_set_like(const Value& value) {
  const auto* sequence = value.object<Sequence>();
  return sequence && (sequence->type == SequenceType::kKeys || sequence->type == SequenceType::kItems);
}

void check_defined(const Value& value) {
  if (const auto* undefined = value.get<Undefined>()) fail(*undefined->why);
}

bool truthy(const Value& value) {
  if (const bool* flag = value.get<bool>()) return *flag;
  if (const Int* integer = value.get<Int>()) return *integer != 0;
  if (const double* real = value.get<double>()) return *real != 0;
  if (const Text* text = value.text()) return !text->bytes.empty();
  if (const auto* sequence = value.object<Sequence>()) return !sequence->items.empty();
  if (const auto* dict = value.object<Dict>()) return !dict->items.empty();
  if (auto* loop = value.object<Loop>()) return loop_length(*loop) > 0;
  return !value.is_none() && !value.is_undefined();
}

bool equal(Heap& heap, const Value& a, const Value& b) { return Comparison(heap).equal(a, b); }
bool less(Heap& heap, const Value& a, const Value& b) { return Comparison(heap).less(a, b, false); }
bool less_equal(Heap& heap, const Value& a, const Value& b) { return Comparison(heap).less(a, b, true); }

bool contains(Heap& heap, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (!item.text()) fail("'in <string>' requires string as left operand, not " + type_name(item));
    heap.scan(text->bytes.size());
    return text->bytes.find(item.text()->bytes) != std::string::npos;
  }
  if (const auto* dict = container.object<Dict>()) return find_key(heap, *dict, item) != nullptr;
  if (auto* iterator = container.object<Iterator>()) {
    while (iterator->next < iterator->items.size()) {
      if (equal(heap, iterator->items[iterator->next++], item)) return true;
    }
    return false;
  }
  if (const auto* sequence = container.object<Sequence>()) {
    return std::any_of(sequence->items.begin(), sequence->items.end(),
                       [&](const Value& other) { return equal(heap, other, item); });
  }
  if (container.is_undefined()) return false;
  fail("argument of type '" + type_name(container) + "' is not iterable");
}

Int length(const Value& value) {
  if (const Text* text = value.text()) return text->n_chars;
  if (const auto* sequence = value.object<Sequence>()) return static_cast<Int>(sequence->items.size());
  if (const auto* dict = value.object<Dict>()) return static_cast<Int>(dict->items.size());
  if (auto* loop = value.object<Loop>()) return loop_length(*loop);
  if (value.is_undefined()) return 0;
  fail("object of type '" + type_name(value) + "' has no len()");
}

bool is_iterable(const Value& value) {
  return value.text() || value.object<Sequence>() || value.object<Dict>() || value.object<Iterator>() ||
         value.object<Loop>() || value.is_undefined();
}

std::vector<Value> items_of(Heap& heap, const Value& value) {
  if (const TextPtr* text = value.get<TextPtr>()) return characters_of(heap, *text);
  if (value.is_undefined()) return {};
  std::vector<Value> items;
  if (const auto* sequence = value.object<Sequence>()) {
    items = sequence->items;
  } else if (const auto* dict = value.object<Dict>()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else if (auto* iterator = value.object<Iterator>()) {
    items.assign(iterator->items.begin() + static_cast<std::ptrdiff_t>(iterator->next), iterator->items.end());
    iterator->next = iterator->items.size();
  } else if (value.object<Loop>()) {
    unsupported("walking over the loop variable itself");
  } else {
    fail("'" + type_name(value) + "' object is not iterable");
  }
  heap.step(static_cast<std::int64_t>(items.size() / 8));
  return items;
}

void check_hashable(const Value& key) {
  const auto* sequence = key.object<Sequence>();
  if (key.object<Dict>() || is_set_like(key) || (sequence && sequence->type == SequenceType::kList)) {
    fail("unhashable type: '" + type_name(key) + "'");
  }
  if (sequence && sequence->type == SequenceType::kTuple) {
    // A tuple is made after its parts and never changes, so this ends; its depth is bounded where it is compared.
    for (const Value& item : sequence->items) {
      if (item.object<Sequence>() && item.object<Sequence>()->type == SequenceType::kTuple)
        unsupported("a nested tuple as a key");
      check_hashable(item);
    }
  }
}

const Value* find_key(Heap& heap, const Dict& dict, const Value& key) {
  check_hashable(key);
  heap.step(static_cast<std::int64_t>(dict.items.size() / 16));
  if (const Text* text = key.text()) return dict.find(text->bytes);
  for (const auto& [name, value] : dict.items) {
    if (!name.text() && equal(heap, name, key)) return &value;
  }
  return nullptr;
}

void set_key(Heap& heap, Dict& dict, const Value& key, Value value) {
  if (const Value* found = find_key(heap, dict, key)) {
    *const_cast<Value*>(found) = std::move(value);
    return;
  }
  heap.charge(2 * sizeof(Value));
  dict.items.emplace_back(key, std::move(value));
}

}  // namespace monograph::jinja
