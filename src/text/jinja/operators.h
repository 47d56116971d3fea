// What Python's operators do with values: truth, equality, order, membership, length.
#pragma once
#include <vector>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

bool truthy(const Value& value);
bool equal(Heap& heap, const Value& a, const Value& b);
/// a < b; fails, as Python does, for types that have no order.
bool less(Heap& heap, const Value& a, const Value& b);
bool less_equal(Heap& heap, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& container, const Value& item);
/// len(value); fails for values that have none.
Int length(const Value& value);
/// Everything that `for x in value` would see; walks an iterator to its end.
std::vector<Value> items_of(Heap& heap, const Value& value);
bool is_iterable(const Value& value);

/// Keys must be hashable, or Python refuses them.
void check_hashable(const Value& key);
const Value* find_key(Heap& heap, const Dict& dict, const Value& key);
void set_key(Heap& heap, Dict& dict, const Value& key, Value value);

/// dict.keys() and dict.items(), which Python also takes as sets.
bool is_set_like(const Value& value);
/// Fails with the reason why `value` is undefined, if it is.
void check_defined(const Value& value);

}  // namespace monograph::jinja
