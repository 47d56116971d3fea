#include "text/jinja/heap.h"

namespace monograph::jinja {

Sequence* Heap::sequence(SequenceType type, std::vector<Value> items) {
  auto* made = make<Sequence>();
  charge(static_cast<std::int64_t>(items.size() * sizeof(Value)));
  step(static_cast<std::int64_t>(items.size() / 8));
  made->type = type;
  made->items = std::move(items);
  return made;
}

Value Heap::iterator(std::vector<Value> items) {
  auto* made = make<Iterator>();
  charge(static_cast<std::int64_t>(items.size() * sizeof(Value)));
  made->items = std::move(items);
  return Value(made);
}

TextPtr Heap::counted(TextPtr text) {
  check_text_size(static_cast<Int>(text->bytes.size()));
  scan(text->bytes.size());
  charge(static_cast<std::int64_t>(text->bytes.size() + sizeof(Text)));
  return text;
}

void Heap::too_long() {
  fail("the template ran for more than " + std::to_string(kMaxSteps) + " steps; it was stopped");
}

void Heap::too_large() {
  fail("the template made more than " + std::to_string(kMaxOutputBytes >> 20) + " MiB of text or " +
       std::to_string(kMaxHeapBytes >> 20) + " MiB of values; it was stopped");
}

}  // namespace monograph::jinja
