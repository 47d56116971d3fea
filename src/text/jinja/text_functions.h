// What Python's str methods do, for methods and filters alike. All keep the marks of the text they take apart.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

enum class Side { kLeft, kRight, kBoth };

/// `part` as it goes into `whole`: escaped if only `whole` is markup.
TextPtr as_part_of(const Text& whole, const TextPtr& part);

/// Without the characters of `characters` (white space if null) at the ends.
TextPtr stripped(Heap& heap, const TextPtr& text, const Text* characters, Side side);
/// At most `limit` cuts, all if negative. `separator` null: runs of white space, none at the ends.
std::vector<TextPtr> split(Heap& heap, const TextPtr& text, const Text* separator, std::int64_t limit);
/// The same, cutting from the right.
std::vector<TextPtr> split_right(Heap& heap, const TextPtr& text, const Text* separator, std::int64_t limit);
std::vector<TextPtr> split_lines(Heap& heap, const TextPtr& text, bool keep_ends);
TextPtr replaced(Heap& heap, const TextPtr& text, const Text& old, const Text& fresh, std::int64_t limit);
/// Filled up to `width` characters; kLeft keeps the text left.
TextPtr padded(Heap& heap, const TextPtr& text, Int width, const Text& fill, Side side);
/// str.isupper() or str.islower().
bool all_cased(Heap& heap, const Text& text, bool upper);
/// Text in lower case, other values as they are: the key that sorting without case compares.
Value folded(Heap& heap, const Value& value);
Value list_of(Heap& heap, std::vector<TextPtr> parts);

}  // namespace monograph::jinja
