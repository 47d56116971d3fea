// Filters that give text: upper, trim, replace, join, indent, tojson ...
#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/attributes.h"
#include "text/jinja/characters.h"
#include "text/jinja/escape.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/signature.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/to_json.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

Value counted(In in, TextPtr text) { return Value(in.heap().counted(std::move(text))); }

// str.title() of Jinja: words begin after white space and opening brackets, and a hyphen.
std::string title_words(std::string_view bytes) {
  std::string out;
  std::size_t word = 0;
  const auto flush = [&](std::size_t end) {
    if (end == word) return;
    const std::size_t first = static_cast<std::size_t>(read_character(bytes, word).length);
    out += to_upper(bytes.substr(word, first)) + to_lower(bytes.substr(word + first, end - word - first));
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = read_character(bytes, at);
    const bool between = is_space(character.code) ||
                         (character.code < 0x80 &&
                          std::string_view("-({[<").find(static_cast<char>(character.code)) != std::string_view::npos);
    if (between) {
      flush(at);
      out += bytes.substr(at, character.length);
      word = at + static_cast<std::size_t>(character.length);
    }
    at += static_cast<std::size_t>(character.length);
  }
  flush(bytes.size());
  return out;
}

Value change(In in, Self self, Args args, const char* name, std::string (*function)(std::string_view)) {
  bind(name, args, {});
  const TextPtr text = to_soft_str(in.heap(), self);
  in.heap().scan(text->bytes.size() * 4);
  return counted(in, derived(function(text->bytes), *text));
}
Value upper(In in, Self self, Args args) { return change(in, self, args, "upper", to_upper); }
Value lower(In in, Self self, Args args) { return change(in, self, args, "lower", to_lower); }
Value capitalize(In in, Self self, Args args) { return change(in, self, args, "capitalize", capitalized); }
// Jinja joins the words into a plain string.
Value title(In in, Self self, Args args) {
  return Value(to_str(in.heap(), change(in, self, args, "title", title_words)));
}

Value trim(In in, Self self, Args args) {
  const Bound bound = bind("trim", args, {"chars"});
  const Text* characters = bound.none(0) ? nullptr : require_text(*bound[0], "trim").get();
  return Value(stripped(in.heap(), to_soft_str(in.heap(), self), characters, Side::kBoth));
}

Value center(In in, Self self, Args args) {
  const Bound bound = bind("center", args, {"width"});
  const TextPtr text = to_soft_str(in.heap(), self);
  return Value(padded(in.heap(), text, bound.integer(0, 80, "width"), *make_text(" "), Side::kBoth));
}

Value replace(In in, Self self, Args args) {
  const Bound bound = bind("replace", args, {"old", "new", "count"}, 2);
  Heap& heap = in.heap();
  const Int limit = bound.none(2) ? -1 : bound.integer(2, -1, "count");
  return Value(replaced(heap, to_str(heap, self), *to_str(heap, *bound[0]), *to_str(heap, *bound[1]),
                        static_cast<std::int64_t>(std::clamp<Int>(limit, -1, std::int64_t{1} << 60))));
}

Value join(In in, Self self, Args args) {
  const Bound bound = bind("join", args, {"d", "attribute"});
  Heap& heap = in.heap();
  const TextPtr glue = bound[0] ? to_str(heap, *bound[0]) : make_text("");
  TextBuilder builder;
  bool first = true;
  for (const Value& item : items_of(heap, self)) {
    if (!first) builder.append(*glue);
    first = false;
    builder.append(*to_str(heap, bound.none(1) ? item : get_path(in, item, *bound[1])));
    heap.check_text_size(static_cast<Int>(builder.size()));
    heap.step();
  }
  return counted(in, builder.finish());
}

TextPtr indention_of(In in, const Bound& bound) {
  if (!bound[0]) return make_text("    ");
  if (const TextPtr* text = bound[0]->get<TextPtr>()) return *text;
  return padded(in.heap(), make_text(""), require_int(*bound[0], "width"), *make_text(" "), Side::kLeft);
}

Value indent(In in, Self self, Args args) {
  const Bound bound = bind("indent", args, {"width", "first", "blank"});
  check_defined(self);
  const TextPtr& text = require_text(self, "indent");
  const TextPtr indention = indention_of(in, bound);
  std::vector<TextPtr> lines = split_lines(in.heap(), text, false);
  // A line end at the very end starts one more, empty line.
  if (text->bytes.empty() ||
      split_lines(in.heap(), part_of(text, previous_character(text->bytes, text->bytes.size()), text->bytes.size()),
                  false)[0]
          ->bytes.empty()) {
    lines.push_back(make_text(""));
  }
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  TextBuilder builder;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) builder.append("\n");
    if (i == 0 ? first : blank || !lines[i]->bytes.empty()) builder.append(*indention);
    builder.append(*lines[i]);
    in.heap().check_text_size(static_cast<Int>(builder.size()));
  }
  return counted(in, builder.finish(text->markup));
}

Value truncate(In in, Self self, Args args) {
  const Bound bound = bind("truncate", args, {"length", "killwords", "end", "leeway"});
  const Int most = bound.integer(0, 255, "length");
  const TextPtr end = bound[2] ? require_text(*bound[2], "truncate") : make_text("...");
  const Int leeway = bound.none(3) ? 5 : bound.integer(3, 5, "leeway");
  if (most < end->n_chars || leeway < 0)
    fail("truncate() needs a length of at least that of its end, and no negative leeway");
  if (length(self) <= most + leeway) return self;
  const TextPtr& text = require_text(self, "truncate");
  std::size_t cut = offset_of(text->bytes, static_cast<std::int64_t>(most - end->n_chars));
  if (!bound.flag(1, false)) {
    const std::size_t space = cut == 0 ? std::string::npos : text->bytes.rfind(' ', cut - 1);
    if (space != std::string::npos) cut = space;
  }
  return add(in.heap(), Value(part_of(text, 0, cut)), Value(end));
}

Value wordcount(In in, Self self, Args args) {
  bind("wordcount", args, {});
  const TextPtr text = to_soft_str(in.heap(), self);
  in.heap().scan(text->bytes.size());
  Int n_words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text->bytes.size();) {
    const Character character = read_character(text->bytes, at);
    const bool word = is_word(character.code);
    n_words += word && !inside;
    inside = word;
    at += static_cast<std::size_t>(character.length);
  }
  return Value::integer(n_words);
}

Value format(In in, Self self, Args args) {
  if (!args.positional.empty() && !args.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const TextPtr text = to_soft_str(in.heap(), self);
  if (args.named.empty()) return Value(printf_style(in.heap(), *text, in.heap().tuple(args.positional)));
  auto* dict = in.heap().make<Dict>();
  for (const auto& [name, value] : args.named) dict->items.emplace_back(in.heap().text(name), value);
  return Value(printf_style(in.heap(), *text, Value(dict)));
}

Value string(In in, Self self, Args args) {
  bind("string", args, {});
  return Value(to_soft_str(in.heap(), self));
}

Value safe(In in, Self self, Args args) {
  bind("safe", args, {});
  Text text = *to_soft_str(in.heap(), self);
  text.markup = true;
  return counted(in, std::make_shared<const Text>(std::move(text)));
}

Value escape(In in, Self self, Args args) {
  bind("escape", args, {});
  const TextPtr text = to_soft_str(in.heap(), self);
  return text->markup ? Value(text) : counted(in, escaped_html(*text));
}

Value forceescape(In in, Self self, Args args) {
  bind("forceescape", args, {});
  return counted(in, escaped_html(*to_str(in.heap(), self)));
}

std::optional<std::string> json_indent(const Bound& bound) {
  if (bound.none(1)) return std::nullopt;
  if (const Text* text = bound[1]->text()) return text->bytes;
  const Int width = require_int(*bound[1], "indent");
  if (width > 1 << 16) fail("indent is too large");
  return std::string(static_cast<std::size_t>(std::max<Int>(width, 0)), ' ');
}

Value tojson(In in, Self self, Args args) {
  const Bound bound = bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  style.indent = json_indent(bound);
  if (style.indent) style.between = ",";
  if (!bound.none(2)) {
    const std::vector<Value> separators = items_of(in.heap(), *bound[2]);
    if (separators.size() != 2) fail("separators must be two strings");
    style.between = require_text(separators[0], "tojson")->bytes;
    style.after_key = require_text(separators[1], "tojson")->bytes;
  }
  return Value(to_json(in.heap(), self, style));
}

constexpr NamedNative kFilters[] = {
    {"upper", upper},
    {"lower", lower},
    {"capitalize", capitalize},
    {"title", title},
    {"trim", trim},
    {"center", center},
    {"replace", replace},
    {"join", join},
    {"indent", indent},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"format", format},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {"tojson", tojson},
};

}  // namespace

std::span<const NamedNative> text_filters() { return kFilters; }

}  // namespace monograph::jinja
