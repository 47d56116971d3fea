#include "text/jinja/loop.h"

namespace monograph::jinja {
namespace {

/// The next accepted item, not yet counted.
std::optional<Value> pull(Loop& loop) {
  while (loop.next < loop.source.size()) {
    const Value& item = loop.source[loop.next++];
    if (!loop.accepts || loop.accepts(item)) return item;
  }
  return std::nullopt;
}

const Value* peek(Loop& loop) {
  if (loop.ahead.empty()) {
    if (auto item = pull(loop)) loop.ahead.push_back(std::move(*item));
  }
  return loop.ahead.empty() ? nullptr : &loop.ahead.front();
}

}  // namespace

bool advance(Loop& loop) {
  if (!peek(loop)) return false;
  loop.previous = std::move(loop.current);
  loop.current = std::move(loop.ahead.front());
  loop.ahead.pop_front();
  ++loop.index0;
  return true;
}

std::int64_t loop_length(Loop& loop) {
  if (!loop.accepts) return static_cast<std::int64_t>(loop.source.size());
  while (auto item = pull(loop)) loop.ahead.push_back(std::move(*item));
  return loop.index0 + 1 + static_cast<std::int64_t>(loop.ahead.size());
}

std::optional<Value> loop_attribute(Loop& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "revindex") return Value::integer(loop_length(loop) - loop.index0);
  if (name == "revindex0") return Value::integer(loop_length(loop) - loop.index0 - 1);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(peek(loop) == nullptr);
  if (name == "length") return Value::integer(loop_length(loop));
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.previous ? *loop.previous : Value::undefined("there is no previous item");
  if (name == "nextitem") {
    const Value* next = peek(loop);
    return next ? *next : Value::undefined("there is no next item");
  }
  return std::nullopt;
}

}  // namespace monograph::jinja
