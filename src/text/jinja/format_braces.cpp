// "{}".format(x)
#include <algorithm>
#include <charconv>

#include "text/jinja/arithmetic.h"
#include "text/jinja/attributes.h"
#include "text/jinja/escape.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/number_format.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int read_number(std::string_view text, std::size_t& at) {
  int value = 0;
  for (; at < text.size() && is_digit_char(text[at]); ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > 1 << 20) fail("the width of a format is too large");
  }
  return value;
}

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  std::size_t at = 0;
  const std::size_t first = text.empty() ? 0 : static_cast<std::size_t>(read_character(text, 0).length);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c && (++at, true); };
  for (const char sign : {'+', '-', ' '}) {
    if (skip(sign)) {
      spec.sign = sign;
      break;
    }
  }
  spec.alternate = skip('#');
  if (at < text.size() && text[at] == '0' && spec.align == 0)
    spec.fill = "0", spec.align = 'z', ++at;  // z: as '0' has it
  spec.width = read_number(text, at);
  if (skip(',')) spec.grouping = ',';
  if (skip('_')) spec.grouping = '_';
  if (skip('.')) {
    if (at >= text.size() || !is_digit_char(text[at])) fail("Format specifier missing precision");
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) fail("Invalid format specifier");
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Text& format, const Arguments& arguments)
      : interpreter_(interpreter), heap_(interpreter.heap()), whole_(format), arguments_(arguments) {}

  TextPtr run() {
    expand(whole_, out_, 2);
    return heap_.counted(out_.finish(whole_.markup));
  }

 private:
  // Replacement fields may stand inside a format specification too, one level deep.
  void expand(const Text& format, TextBuilder& out, int levels) {
    if (levels == 0) fail("Max string recursion exceeded");
    const std::string& bytes = format.bytes;
    heap_.scan(bytes.size());
    for (std::size_t at = 0; at < bytes.size();) {
      const char c = bytes[at];
      if (c != '{' && c != '}') {
        const std::size_t end = std::min(bytes.find_first_of("{}", at), bytes.size());
        out.append_part(format, at, end);
        at = end;
      } else if (at + 1 < bytes.size() && bytes[at + 1] == c) {
        out.append_part(format, at, at + 1);
        at += 2;
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else {
        at = field(format, at + 1, out, levels);
      }
    }
  }

  // One field, `at` behind its brace; gives the place behind its end.
  std::size_t field(const Text& format, std::size_t at, TextBuilder& out, int levels) {
    const std::string& bytes = format.bytes;
    std::size_t end = at;
    for (int open = 1; end < bytes.size(); ++end) {
      open += bytes[end] == '{' ? 1 : bytes[end] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (end >= bytes.size())
      fail(at >= bytes.size() ? "Single '{' encountered in format string" : "expected '}' before end of string");
    const std::string_view body = std::string_view(bytes).substr(at, end - at);
    std::size_t name_end = 0;
    for (bool inside = false; name_end < body.size(); ++name_end) {
      const char c = body[name_end];
      if (c == '{') fail("unexpected '{' in field name");
      inside = c == '[' ? true : c == ']' ? false : inside;
      if (!inside && (c == '!' || c == ':')) break;
    }
    Value value = lookup(body.substr(0, name_end));
    std::string_view rest = body.substr(name_end);
    if (rest.starts_with('!')) value = converted(value, rest);
    TextBuilder spec;
    if (rest.starts_with(':')) expand(*make_text(std::string(rest.substr(1))), spec, levels - 1);
    put(value, spec.finish()->bytes, out);
    return end + 1;
  }

  Value converted(const Value& value, std::string_view& rest) {
    if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) fail("expected ':' after conversion specifier");
    const char conversion = rest[1];
    rest.remove_prefix(2);
    if (conversion == 's') return Value(to_str(heap_, value));
    if (conversion == 'r') return Value(to_repr(heap_, value));
    if (conversion == 'a') unsupported("the conversion !a");
    fail("Unknown conversion specifier");
  }

  Value lookup(std::string_view name) {
    const std::string_view first = name.substr(0, name.find_first_of(".["));
    Value value = argument(first);
    std::string_view rest = name.substr(first.size());
    while (!rest.empty()) {
      if (rest[0] == '.') {
        const std::string_view part = rest.substr(1, rest.find_first_of(".[", 1) - 1);
        if (part.empty()) fail("Empty attribute in format string");
        value = get_attribute(interpreter_, value, part);
        rest.remove_prefix(1 + part.size());
      } else {
        const std::size_t end = rest.find(']');
        if (rest[0] != '[' || end == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view part = rest.substr(1, end - 1);
        if (part.empty()) fail("Empty attribute in format string");
        value = get_item(interpreter_, value, key_of(part));
        rest.remove_prefix(end + 1);
        if (!rest.empty() && rest[0] != '.' && rest[0] != '[')
          fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static Value key_of(std::string_view part) {
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc() && end == part.data() + part.size() && part[0] != '-';
    return number ? Value::integer(index) : Value::text(std::string(part));
  }

  Value argument(std::string_view name) {
    const bool manual = !name.empty() && std::all_of(name.begin(), name.end(), is_digit_char);
    if (name.empty() || manual) {
      const Numbering wanted = manual ? Numbering::kManual : Numbering::kAutomatic;
      if (numbering_ != Numbering::kUnknown && numbering_ != wanted) {
        fail("cannot mix automatic field numbering and manual field specification");
      }
      numbering_ = wanted;
      std::size_t place = next_;
      if (manual) {
        place = name.size() > 9 ? arguments_.positional.size() : static_cast<std::size_t>(std::stol(std::string(name)));
      } else {
        ++next_;
      }
      if (place >= arguments_.positional.size()) fail("Replacement index out of range for positional args tuple");
      return arguments_.positional[place];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail("no argument " + in_quotes(name) + " for a format");
  }

  void put(const Value& value, const std::string& spec_text, TextBuilder& out) {
    TextPtr made = spec_text.empty() ? to_soft_str(heap_, value) : formatted(value, parse_spec(spec_text));
    if (whole_.markup && !made->markup) made = escaped_html(*made);
    heap_.check_text_size(static_cast<Int>(out.size() + made->bytes.size()));
    out.append(*made);
  }

  TextPtr formatted(const Value& value, FormatSpec spec) {
    if (value.text()) return formatted_text(value, spec);
    if (!is_number(value)) fail("unsupported format string passed to " + type_name(value) + ".__format__");
    if (spec.align == 'z') spec.align = '=';
    constexpr std::string_view kReal = "eEfFgG%";
    const bool real_type = spec.type != 0 && kReal.find(spec.type) != std::string_view::npos;
    if (value.is<double>() || real_type) {
      if (spec.type != 0 && !real_type)
        fail(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
      return make_text(format_double(*as_double(value), spec));
    }
    if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
    if (spec.type == 'c' || spec.type == 'n') unsupported("this format type of an integer");
    if (spec.type != 0 && std::string_view("dxXob").find(spec.type) == std::string_view::npos) {
      fail(std::string("Unknown format code '") + spec.type + "' for object of type 'int'");
    }
    if (spec.grouping == ',' && spec.type != 0 && spec.type != 'd') fail("Cannot specify ',' with this type");
    if (spec.grouping && spec.align == '=' && spec.fill == "0") unsupported("a grouped format filled with zeros");
    return make_text(format_integer(*as_int(value), spec));
  }

  TextPtr formatted_text(const Value& value, FormatSpec spec) {
    if (spec.type != 0 && spec.type != 's')
      fail(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
    if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.grouping)
      fail("format not allowed for a string");
    if (spec.align == 'z') spec.align = '<';
    TextPtr text = *value.get<TextPtr>();
    if (spec.precision >= 0) text = part_of(text, 0, offset_of(text->bytes, spec.precision));
    return spec.width <= text->n_chars ? text : derived(aligned(text->bytes, spec, '<'), *text);
  }

  enum class Numbering { kUnknown, kAutomatic, kManual };
  Interpreter& interpreter_;
  Heap& heap_;
  const Text& whole_;
  const Arguments& arguments_;
  TextBuilder out_;
  std::size_t next_ = 0;
  Numbering numbering_ = Numbering::kUnknown;
};

}  // namespace

TextPtr brace_style(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  return BraceFormatter(interpreter, format, arguments).run();
}

}  // namespace monograph::jinja
