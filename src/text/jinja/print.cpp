#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/loop.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

void append_escape(std::string& out, char letter, int n_digits, char32_t code) {
  out += {'\\', letter};
  for (int digit = n_digits - 1; digit >= 0; --digit) out.push_back("0123456789abcdef"[code >> (4 * digit) & 15]);
}

void append_quoted_character(std::string& out, char32_t code, char quote) {
  switch (code) {
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (code == static_cast<unsigned char>(quote)) {
    out += {'\\', quote};
  } else if (is_printable(code)) {
    append_character(out, code);
  } else if (code < 0x100) {
    append_escape(out, 'x', 2, code);
  } else if (code < 0x10000) {
    append_escape(out, 'u', 4, code);
  } else {
    append_escape(out, 'U', 8, code);
  }
}

// Writes repr() of any value; containers recurse, so it counts how deep it is.
class Printer {
 public:
  explicit Printer(Heap& heap) : heap_(heap) {}

  void print(const Value& value) {
    heap_.step();
    heap_.check_text_size(static_cast<Int>(out_.size()));
    std::visit([this](const auto& v) { put(v); }, value.storage());
  }
  TextPtr finish() { return heap_.counted(make_text(std::move(out_), any_input_)); }

 private:
  void put(None) { out_ += "None"; }
  void put(const Undefined&) { out_ += "Undefined"; }
  void put(bool value) { out_ += value ? "True" : "False"; }
  void put(Int value) { out_ += int_repr(value); }
  void put(double value) { out_ += float_repr(value); }
  void put(const TextPtr& text) {
    heap_.scan(text->bytes.size());
    any_input_ |= text->any_input();
    out_ += text->markup ? "Markup(" + in_quotes(text->bytes) + ")" : in_quotes(text->bytes);
  }
  void put(const Sequence* sequence);
  void put(const Dict* dict) { pairs(dict->items); }
  void put(const Namespace* space);
  void put(const Callable* callable) {
    if (!callable->macro) unsupported("printing a function");
    out_ += "<Macro " + in_quotes(callable->name) + ">";
  }
  void put(Loop* loop) {
    out_ += "<LoopContext " + std::to_string(loop->index0 + 1) + "/" + std::to_string(loop_length(*loop)) + ">";
  }
  void put(const Iterator*) { unsupported("printing a generator; put |list behind it"); }
  void put(const Cycler*) { unsupported("printing a cycler"); }

  void enter() {
    if (++depth_ > kMaxValueDepth) fail("a value is nested too deeply to be printed");
  }
  void list(const std::vector<Value>& items) {
    enter();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      print(items[i]);
    }
    --depth_;
  }
  void pairs(const std::vector<std::pair<Value, Value>>& items) {
    enter();
    out_ += "{";
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      print(items[i].first);
      out_ += ": ";
      print(items[i].second);
    }
    out_ += "}";
    --depth_;
  }

  Heap& heap_;
  std::string out_;
  bool any_input_ = false;
  int depth_ = 0;
};

void Printer::put(const Sequence* sequence) {
  switch (sequence->type) {
    case SequenceType::kRange:
      out_ += "range(" + int_repr(sequence->start) + ", " + int_repr(sequence->stop);
      if (sequence->step != 1) out_ += ", " + int_repr(sequence->step);
      out_ += ")";
      return;
    case SequenceType::kTuple:
      out_ += "(";
      list(sequence->items);
      out_ += sequence->items.size() == 1 ? ",)" : ")";
      return;
    case SequenceType::kList:
      out_ += "[";
      list(sequence->items);
      out_ += "]";
      return;
    default:
      out_ += type_name(Value(const_cast<Sequence*>(sequence))) + "([";
      list(sequence->items);
      out_ += "])";
  }
}

void Printer::put(const Namespace* space) {
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, value] : space->attributes) items.emplace_back(Value::text(name), value);
  out_ += "<Namespace ";
  pairs(items);
  out_ += ">";
}

}  // namespace

std::string in_quotes(std::string_view bytes) {
  const bool single = bytes.find('\'') != std::string_view::npos, twofold = bytes.find('"') != std::string_view::npos;
  const char quote = single && !twofold ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = read_character(bytes, at);
    append_quoted_character(out, character.code, quote);
    at += character.length;
  }
  out.push_back(quote);
  return out;
}

std::string int_repr(Int value) {
  using Unsigned = unsigned __int128;
  Unsigned rest = value < 0 ? Unsigned{0} - static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  std::string out;
  do {
    out.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
  } while ((rest /= 10) > 0);
  if (value < 0) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);  // shortest digits that read back: d.ddde[+-]xx
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;
  const auto plain = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string out(buffer, plain);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

TextPtr to_repr(Heap& heap, const Value& value) {
  Printer printer(heap);
  printer.print(value);
  return printer.finish();
}

TextPtr to_soft_str(Heap& heap, const Value& value) {
  if (const TextPtr* text = value.get<TextPtr>()) return *text;
  if (value.is_undefined()) return make_text("");
  return to_repr(heap, value);
}

TextPtr to_str(Heap& heap, const Value& value) {
  TextPtr text = to_soft_str(heap, value);
  if (!text->markup) return text;
  Text plain = *text;
  plain.markup = false;
  return std::make_shared<const Text>(std::move(plain));
}

}  // namespace monograph::jinja
