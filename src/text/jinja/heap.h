// Owns every object made during one rendering, and counts what the rendering costs.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

/// Objects may point at each other in circles (a namespace that holds itself), so they all die together at the end.
class Heap {
 public:
  template <typename T>
  T* make() {
    charge(sizeof(T) + 16);
    auto owner = std::make_unique<T>();
    T* object = owner.get();
    objects_.push_back(std::move(owner));
    return object;
  }
  Sequence* sequence(SequenceType type, std::vector<Value> items = {});
  Value list(std::vector<Value> items = {}) { return Value(sequence(SequenceType::kList, std::move(items))); }
  Value tuple(std::vector<Value> items = {}) { return Value(sequence(SequenceType::kTuple, std::move(items))); }
  Value iterator(std::vector<Value> items);
  Value text(std::string bytes) { return Value(counted(make_text(std::move(bytes)))); }
  /// Charges for a string that was just made.
  TextPtr counted(TextPtr text);

  void step(std::int64_t n = 1) {
    if ((steps_ += n) > kMaxSteps) too_long();
  }
  /// The cost of walking over `n` bytes.
  void scan(std::size_t n) { step(1 + static_cast<std::int64_t>(n / 64)); }
  void charge(std::int64_t bytes) {
    if ((bytes_ += bytes) > kMaxHeapBytes) too_large();
  }
  /// Before a string of this size is made.
  void check_text_size(Int bytes) const {
    if (bytes > kMaxOutputBytes) too_large();
  }

 private:
  [[noreturn]] static void too_long();
  [[noreturn]] static void too_large();
  std::vector<std::unique_ptr<Object>> objects_;
  std::int64_t steps_ = 0, bytes_ = 0;
};

}  // namespace monograph::jinja
