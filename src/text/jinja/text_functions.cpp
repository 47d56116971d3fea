#include "text/jinja/text_functions.h"

#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/escape.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

bool is_among(const Text* characters, std::string_view text, std::size_t at, int length) {
  if (!characters) return is_space(read_character(text, at).code);
  const std::string_view character = text.substr(at, length);
  const std::string& set = characters->bytes;
  for (std::size_t i = 0; i < set.size(); i += read_character(set, i).length) {
    if (std::string_view(set).substr(i, read_character(set, i).length) == character) return true;
  }
  return false;
}

std::vector<TextPtr> split_at_space(const TextPtr& text, std::int64_t limit) {
  const std::string& bytes = text->bytes;
  std::vector<TextPtr> parts;
  std::size_t at = 0;
  const auto skip = [&](bool space) {
    while (at < bytes.size()) {
      const Character character = read_character(bytes, at);
      if (is_space(character.code) != space) break;
      at += character.length;
    }
  };
  while (true) {
    skip(true);
    if (at == bytes.size()) return parts;
    const std::size_t begin = at;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit) {
      parts.push_back(part_of(text, begin, bytes.size()));
      return parts;
    }
    skip(false);
    parts.push_back(part_of(text, begin, at));
  }
}

std::vector<TextPtr> split_right_at_space(const TextPtr& text, std::int64_t limit) {
  const std::string& bytes = text->bytes;
  std::vector<TextPtr> parts;
  std::size_t end = bytes.size();
  const auto skip = [&](bool space) {
    while (end > 0) {
      const std::size_t previous = previous_character(std::string_view(bytes).substr(0, end), end);
      if (is_space(read_character(bytes, previous).code) != space) break;
      end = previous;
    }
  };
  while (true) {
    skip(true);
    if (end == 0) break;
    const std::size_t last = end;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit) {
      parts.push_back(part_of(text, 0, last));
      break;
    }
    skip(false);
    parts.push_back(part_of(text, end, last));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

/// How many bytes of line end stand at `at`; 0 if none.
std::size_t line_end(std::string_view bytes, std::size_t at) {
  const Character character = read_character(bytes, at);
  switch (character.code) {
    case '\r':
      return at + 1 < bytes.size() && bytes[at + 1] == '\n' ? 2 : 1;
    case '\n':
    case '\v':
    case '\f':
    case 0x1C:
    case 0x1D:
    case 0x1E:
    case 0x85:
    case 0x2028:
    case 0x2029:
      return static_cast<std::size_t>(character.length);
    default:
      return 0;
  }
}

}  // namespace

TextPtr as_part_of(const Text& whole, const TextPtr& part) {
  return whole.markup && !part->markup ? escaped_html(*part) : part;
}

TextPtr stripped(Heap& heap, const TextPtr& text, const Text* characters, Side side) {
  const std::string_view bytes = text->bytes;
  heap.scan(bytes.size());
  if (characters) heap.scan(characters->bytes.size() * 16);
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const int length = read_character(bytes, begin).length;
    if (!is_among(characters, bytes, begin, length)) break;
    begin += length;
  }
  while (side != Side::kLeft && end > begin) {
    const std::size_t previous = previous_character(bytes.substr(0, end), end);
    if (!is_among(characters, bytes, previous, static_cast<int>(end - previous))) break;
    end = previous;
  }
  return heap.counted(part_of(text, begin, end));
}

std::vector<TextPtr> split(Heap& heap, const TextPtr& text, const Text* separator, std::int64_t limit) {
  heap.scan(text->bytes.size());
  if (!separator) return split_at_space(text, limit);
  if (separator->bytes.empty()) fail("empty separator");
  std::vector<TextPtr> parts;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t at = text->bytes.find(separator->bytes, begin);
    if (at == std::string::npos) break;
    parts.push_back(part_of(text, begin, at));
    begin = at + separator->bytes.size();
  }
  parts.push_back(part_of(text, begin, text->bytes.size()));
  return parts;
}

std::vector<TextPtr> split_right(Heap& heap, const TextPtr& text, const Text* separator, std::int64_t limit) {
  heap.scan(text->bytes.size());
  if (!separator) return split_right_at_space(text, limit);
  const std::string &bytes = text->bytes, &cut = separator->bytes;
  if (cut.empty()) fail("empty separator");
  std::vector<TextPtr> parts;
  std::size_t end = bytes.size();
  while ((limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) && end >= cut.size()) {
    const std::size_t at = bytes.rfind(cut, end - cut.size());
    if (at == std::string::npos) break;
    parts.push_back(part_of(text, at + cut.size(), end));
    end = at;
  }
  parts.push_back(part_of(text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<TextPtr> split_lines(Heap& heap, const TextPtr& text, bool keep_ends) {
  const std::string& bytes = text->bytes;
  heap.scan(bytes.size());
  std::vector<TextPtr> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = line_end(bytes, at);
    if (length == 0) {
      at += read_character(bytes, at).length;
      continue;
    }
    lines.push_back(part_of(text, begin, keep_ends ? at + length : at));
    begin = at += length;
  }
  if (begin < bytes.size()) lines.push_back(part_of(text, begin, bytes.size()));
  return lines;
}

TextPtr replaced(Heap& heap, const TextPtr& text, const Text& old, const Text& fresh, std::int64_t limit) {
  const std::string& bytes = text->bytes;
  heap.scan(bytes.size());
  TextBuilder builder;
  std::size_t done = 0, from = 0;
  for (std::int64_t n = 0; limit < 0 || n < limit; ++n) {
    const std::size_t at = from <= bytes.size() ? bytes.find(old.bytes, from) : std::string::npos;
    if (at == std::string::npos) break;
    builder.append_part(*text, done, at);
    builder.append(fresh);
    heap.check_text_size(static_cast<Int>(builder.size()));
    done = at + old.bytes.size();
    // An empty string is found before every character and at the end.
    from = !old.bytes.empty() ? done : at < bytes.size() ? at + read_character(bytes, at).length : bytes.size() + 1;
  }
  builder.append_part(*text, done, bytes.size());
  return heap.counted(builder.finish(text->markup));
}

TextPtr padded(Heap& heap, const TextPtr& text, Int width, const Text& fill, Side side) {
  if (fill.n_chars != 1) fail("the fill character must be exactly one character long");
  const Int missing = width - text->n_chars;
  if (missing <= 0) return text;
  heap.check_text_size(missing * static_cast<Int>(fill.bytes.size()));
  // Python puts the odd one of str.center() left only if the width is odd.
  const Int left = side == Side::kLeft ? 0 : side == Side::kRight ? missing : missing / 2 + (missing & width & 1);
  TextBuilder builder;
  for (Int i = 0; i < left; ++i) builder.append(fill);
  builder.append(*text);
  for (Int i = left; i < missing; ++i) builder.append(fill);
  return heap.counted(builder.finish(text->markup));
}

Value list_of(Heap& heap, std::vector<TextPtr> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (TextPtr& part : parts) items.emplace_back(heap.counted(std::move(part)));
  return heap.list(std::move(items));
}

}  // namespace monograph::jinja
