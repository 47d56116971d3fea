// The methods of Python's str.
#include <algorithm>
#include <array>

#include "text/jinja/arithmetic.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/signature.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

const TextPtr& text_of(Self self) { return *self.get<TextPtr>(); }
Value counted(In in, TextPtr text) { return Value(in.heap().counted(std::move(text))); }

std::int64_t limit_of(const Bound& bound, std::size_t i, const char* what) {
  return static_cast<std::int64_t>(std::clamp<Int>(bound.integer(i, -1, what), -1, std::int64_t{1} << 60));
}

// Case and padding.
Value change(In in, Self self, Args args, const char* name, std::string (*function)(std::string_view)) {
  bind_places(name, args, 0, 0);
  in.heap().scan(text_of(self)->bytes.size() * 4);
  return counted(in, derived(function(text_of(self)->bytes), *text_of(self)));
}
Value upper(In in, Self self, Args args) { return change(in, self, args, "upper", to_upper); }
Value lower(In in, Self self, Args args) { return change(in, self, args, "lower", to_lower); }
Value title(In in, Self self, Args args) { return change(in, self, args, "title", titled); }
Value capitalize(In in, Self self, Args args) { return change(in, self, args, "capitalize", capitalized); }

Value pad(In in, Self self, Args args, const char* name, Side side) {
  const Bound bound = bind_places(name, args, 1, 2);
  const TextPtr fill = bound[1] ? require_text(*bound[1], name) : make_text(" ");
  return counted(in, padded(in.heap(), text_of(self), bound.integer(0, 0, "the width"), *fill, side));
}
Value center(In in, Self self, Args args) { return pad(in, self, args, "center", Side::kBoth); }
Value ljust(In in, Self self, Args args) { return pad(in, self, args, "ljust", Side::kLeft); }
Value rjust(In in, Self self, Args args) { return pad(in, self, args, "rjust", Side::kRight); }

Value zfill(In in, Self self, Args args) {
  const Bound bound = bind_places("zfill", args, 1, 1);
  const TextPtr& text = text_of(self);
  const bool sign = text->bytes.starts_with('-') || text->bytes.starts_with('+');
  const Int width = bound.integer(0, 0, "the width");
  if (!sign) return counted(in, padded(in.heap(), text, width, *make_text("0"), Side::kRight));
  TextBuilder builder;
  builder.append_part(*text, 0, 1);
  builder.append(*padded(in.heap(), part_of(text, 1, text->bytes.size()), width - 1, *make_text("0"), Side::kRight));
  return counted(in, builder.finish(text->markup));
}

// Ends.
Value strip_side(In in, Self self, Args args, const char* name, Side side) {
  const Bound bound = bind_places(name, args, 0, 1);
  const Text* characters = bound.none(0) ? nullptr : require_text(*bound[0], name).get();
  return Value(stripped(in.heap(), text_of(self), characters, side));
}
Value strip(In in, Self self, Args args) { return strip_side(in, self, args, "strip", Side::kBoth); }
Value lstrip(In in, Self self, Args args) { return strip_side(in, self, args, "lstrip", Side::kLeft); }
Value rstrip(In in, Self self, Args args) { return strip_side(in, self, args, "rstrip", Side::kRight); }

Value removeprefix(In in, Self self, Args args) {
  const Bound bound = bind_places("removeprefix", args, 1, 1);
  const std::string& prefix = require_text(*bound[0], "removeprefix")->bytes;
  const TextPtr& text = text_of(self);
  return counted(in, text->bytes.starts_with(prefix) ? part_of(text, prefix.size(), text->bytes.size()) : text);
}
Value removesuffix(In in, Self self, Args args) {
  const Bound bound = bind_places("removesuffix", args, 1, 1);
  const std::string& suffix = require_text(*bound[0], "removesuffix")->bytes;
  const TextPtr& text = text_of(self);
  return counted(in, text->bytes.ends_with(suffix) ? part_of(text, 0, text->bytes.size() - suffix.size()) : text);
}

/// The bytes that [start, stop) of the characters take, as str.find() and its kin narrow the text.
std::optional<Span> window(const Text& text, const Bound& bound, std::size_t first) {
  const auto edge = [&](std::size_t i, Int otherwise) {
    if (bound.none(i)) return otherwise;
    const Int index = require_int(*bound[i], "a bound");
    return index < 0 ? std::max<Int>(0, index + text.n_chars) : index;
  };
  const Int start = edge(first, 0), stop = std::min<Int>(edge(first + 1, text.n_chars), text.n_chars);
  if (start > stop) return std::nullopt;
  const auto offset = [&](Int index) { return offset_of(text.bytes, static_cast<std::int64_t>(index)); };
  return Span{offset(start), offset(stop)};
}

Value has_end(In in, Self self, Args args, const char* name, bool at_start) {
  const Bound bound = bind_places(name, args, 1, 3);
  const Text& text = *text_of(self);
  in.heap().scan(bound.none(1) && bound.none(2) ? 1 : text.bytes.size());
  const auto span = window(text, bound, 1);
  const auto matches = [&](const Value& end) {
    const std::string& wanted = require_text(end, name)->bytes;
    if (!span) return false;
    const std::string_view part = std::string_view(text.bytes).substr(span->begin, span->end - span->begin);
    return at_start ? part.starts_with(wanted) : part.ends_with(wanted);
  };
  const auto* several = bound[0]->object<Sequence>();
  if (!several || several->type != SequenceType::kTuple) return Value(matches(*bound[0]));
  return Value(std::any_of(several->items.begin(), several->items.end(), matches));
}
Value startswith(In in, Self self, Args args) { return has_end(in, self, args, "startswith", true); }
Value endswith(In in, Self self, Args args) { return has_end(in, self, args, "endswith", false); }

// Search.
Value search(In in, Self self, Args args, const char* name, bool from_right, bool must_find) {
  const Bound bound = bind_places(name, args, 1, 3);
  const Text& text = *text_of(self);
  const std::string& wanted = require_text(*bound[0], name)->bytes;
  in.heap().scan(text.bytes.size() * 2);
  std::size_t at = std::string::npos;
  if (const auto span = window(text, bound, 1)) {
    const std::string_view part = std::string_view(text.bytes).substr(span->begin, span->end - span->begin);
    at = from_right ? part.rfind(wanted) : part.find(wanted);
    if (at != std::string::npos) at += span->begin;
  }
  if (at != std::string::npos) return Value::integer(count_characters(std::string_view(text.bytes).substr(0, at)));
  if (must_find) fail("substring not found");
  return Value::integer(-1);
}
Value find(In in, Self self, Args args) { return search(in, self, args, "find", false, false); }
Value rfind(In in, Self self, Args args) { return search(in, self, args, "rfind", true, false); }
Value index(In in, Self self, Args args) { return search(in, self, args, "index", false, true); }
Value rindex(In in, Self self, Args args) { return search(in, self, args, "rindex", true, true); }

Value count(In in, Self self, Args args) {
  const Bound bound = bind_places("count", args, 1, 3);
  const Text& text = *text_of(self);
  const std::string& wanted = require_text(*bound[0], "count")->bytes;
  in.heap().scan(text.bytes.size() * 2);
  const auto span = window(text, bound, 1);
  if (!span) return Value::integer(0);
  const std::string_view part = std::string_view(text.bytes).substr(span->begin, span->end - span->begin);
  if (wanted.empty()) return Value::integer(count_characters(part) + 1);
  Int n = 0;
  for (std::size_t at = part.find(wanted); at != std::string_view::npos; at = part.find(wanted, at + wanted.size()))
    ++n;
  return Value::integer(n);
}

// Parts.
Value split_with(In in, Self self, Args args, const char* name, bool from_right) {
  const Bound bound = bind(name, args, {"sep", "maxsplit"});
  const Text* separator = bound.none(0) ? nullptr : require_text(*bound[0], name).get();
  const std::int64_t limit = limit_of(bound, 1, "maxsplit");
  auto* const function = from_right ? split_right : split;
  return list_of(in.heap(), function(in.heap(), text_of(self), separator, limit));
}
Value split_left(In in, Self self, Args args) { return split_with(in, self, args, "split", false); }
Value rsplit(In in, Self self, Args args) { return split_with(in, self, args, "rsplit", true); }

Value splitlines(In in, Self self, Args args) {
  const Bound bound = bind("splitlines", args, {"keepends"});
  return list_of(in.heap(), split_lines(in.heap(), text_of(self), bound.flag(0, false)));
}

Value partition_at(In in, Self self, Args args, const char* name, bool from_right) {
  const Bound bound = bind_places(name, args, 1, 1);
  const TextPtr& text = text_of(self);
  const std::string& separator = require_text(*bound[0], name)->bytes;
  if (separator.empty()) fail("empty separator");
  in.heap().scan(text->bytes.size());
  const std::size_t at = from_right ? text->bytes.rfind(separator) : text->bytes.find(separator);
  const TextPtr nothing = make_text("", false, text->markup);
  if (at == std::string::npos) {
    if (from_right) return in.heap().tuple({Value(nothing), Value(nothing), Value(text)});
    return in.heap().tuple({Value(text), Value(nothing), Value(nothing)});
  }
  const std::size_t behind = at + separator.size();
  return in.heap().tuple({counted(in, part_of(text, 0, at)), counted(in, part_of(text, at, behind)),
                          counted(in, part_of(text, behind, text->bytes.size()))});
}
Value partition(In in, Self self, Args args) { return partition_at(in, self, args, "partition", false); }
Value rpartition(In in, Self self, Args args) { return partition_at(in, self, args, "rpartition", true); }

Value replace(In in, Self self, Args args) {
  const Bound bound = bind_places("replace", args, 2, 3);
  const TextPtr fresh = as_part_of(*text_of(self), require_text(*bound[1], "replace"));
  const Text& old = *require_text(*bound[0], "replace");
  return Value(replaced(in.heap(), text_of(self), old, *fresh, limit_of(bound, 2, "count")));
}

Value join(In in, Self self, Args args) {
  const Bound bound = bind_places("join", args, 1, 1);
  const Text& glue = *text_of(self);
  TextBuilder builder;
  bool first = true;
  for (const Value& item : items_of(in.heap(), *bound[0])) {
    if (!first) builder.append(glue);
    first = false;
    const TextPtr part = glue.markup ? to_soft_str(in.heap(), item) : require_text(item, "join");
    builder.append(*as_part_of(glue, part));
    in.heap().check_text_size(static_cast<Int>(builder.size()));
  }
  return counted(in, builder.finish(glue.markup));
}

Value format(In in, Self self, Args args) { return Value(brace_style(in, *text_of(self), args)); }

// Questions.
template <bool (*Property)(char32_t)>
Value all_are(In in, Self self, Args args) {
  bind_places("this method", args, 0, 0);
  const std::string& bytes = text_of(self)->bytes;
  in.heap().scan(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += read_character(bytes, at).length) {
    if (!Property(read_character(bytes, at).code)) return Value(false);
  }
  return Value(!bytes.empty());
}

bool is_alphanumeric(char32_t code) { return is_alphabetic(code) || is_numeric(code); }
Value isprintable(In in, Self self, Args args) {
  return text_of(self)->bytes.empty() ? Value(true) : all_are<is_printable>(in, self, args);
}
Value isascii(In, Self self, Args args) {
  bind_places("isascii", args, 0, 0);
  return Value(std::all_of(text_of(self)->bytes.begin(), text_of(self)->bytes.end(),
                           [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}
Value isupper(In in, Self self, Args args) {
  bind_places("isupper", args, 0, 0);
  return Value(all_cased(in.heap(), *text_of(self), true));
}
Value islower(In in, Self self, Args args) {
  bind_places("islower", args, 0, 0);
  return Value(all_cased(in.heap(), *text_of(self), false));
}

constexpr std::pair<std::string_view, Native> kMethods[] = {
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},

    {"center", center},
    {"ljust", ljust},
    {"rjust", rjust},
    {"zfill", zfill},
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"startswith", startswith},
    {"endswith", endswith},
    {"find", find},
    {"rfind", rfind},
    {"index", index},
    {"rindex", rindex},
    {"count", count},
    {"split", split_left},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"replace", replace},
    {"join", join},
    {"format", format},
    {"isspace", all_are<is_space>},
    {"isalpha", all_are<is_alphabetic>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isprintable", isprintable},
    {"isascii", isascii},
    {"isupper", isupper},
    {"islower", islower},
};

}  // namespace

bool all_cased(Heap& heap, const Text& text, bool upper) {
  heap.scan(text.bytes.size());
  bool any = false;
  for (std::size_t at = 0; at < text.bytes.size(); at += read_character(text.bytes, at).length) {
    const char32_t code = read_character(text.bytes, at).code;
    if (is_title(code) || (upper ? is_lower(code) : is_upper(code))) return false;
    any |= upper ? is_upper(code) : is_lower(code);
  }
  return any;
}

Native find_string_method(std::string_view name) {
  for (const auto& [method, native] : kMethods) {
    if (method == name) return native;
  }
  return nullptr;
}

}  // namespace monograph::jinja
