#include "text/jinja/to_json.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}

  void write(const Value& value) {
    heap_.step();
    heap_.check_text_size(static_cast<Int>(out_.size()));
    if (value.is_none()) {
      out_ += "null";
    } else if (const bool* flag = value.get<bool>()) {
      out_ += *flag ? "true" : "false";
    } else if (const Int* integer = value.get<Int>()) {
      out_ += int_repr(*integer);
    } else if (const double* real = value.get<double>()) {
      out_ += float_text(*real);
    } else if (const Text* text = value.text()) {
      string(*text);
    } else if (const auto* dict = value.object<Dict>()) {
      object(*dict);
    } else {
      array(value);
    }
  }
  TextPtr finish() { return heap_.counted(make_text(std::move(out_), any_input_)); }

 private:
  static std::string float_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_repr(value);
  }

  void array(const Value& value) {
    const auto* sequence = value.object<Sequence>();
    const bool known = sequence && (sequence->type == SequenceType::kList || sequence->type == SequenceType::kTuple);
    if (!known) fail("Object of type " + type_name(value) + " is not JSON serializable");
    if (sequence->items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    enter();
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      separate(i == 0);
      write(sequence->items[i]);
    }
    leave(']');
  }

  void object(const Dict& dict) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    auto items = dict.items;
    if (style_.sort_keys) {
      const auto before = [this](const auto& a, const auto& b) { return less(heap_, a.first, b.first); };
      std::stable_sort(items.begin(), items.end(), before);
    }
    out_ += '{';
    enter();
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      key(items[i].first);
      out_ += style_.after_key;
      write(items[i].second);
    }
    leave('}');
  }

  void key(const Value& key) {
    if (const Text* text = key.text()) return string(*text);
    if (key.object<Sequence>() || key.is_undefined()) {
      fail("keys must be str, int, float, bool or None, not " + type_name(key));
    }
    out_ += '"';
    write(key);
    out_ += '"';
  }

  void enter() {
    if (++depth_ > kMaxValueDepth) fail("a value is nested too deeply to be written as JSON");
  }
  void separate(bool first) {
    if (!first) out_ += style_.between;
    new_line();
  }
  void new_line() {
    if (!style_.indent) return;
    heap_.check_text_size(static_cast<Int>(out_.size() + style_.indent->size() * static_cast<std::size_t>(depth_)));
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }
  void leave(char bracket) {
    --depth_;
    new_line();
    out_ += bracket;
  }

  void string(const Text& text) {
    heap_.scan(text.bytes.size());
    any_input_ |= text.any_input();
    out_ += '"';
    for (std::size_t at = 0; at < text.bytes.size();) {
      const Character character = read_character(text.bytes, at);
      character_code(character.code);
      at += character.length;
    }
    out_ += '"';
  }

  void character_code(char32_t code) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const std::size_t special = code < 0x80 ? kSpecial.find(static_cast<char>(code)) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out_ += {'\\', kLetters[special]};
    } else if (code < 0x20 || (code > 0x7E && style_.ensure_ascii)) {
      escape(code);
    } else {
      append_character(out_, code);
    }
  }

  void escape(char32_t code) {
    if (code > 0xFFFF) {
      escape(0xD800 + ((code - 0x10000) >> 10));
      escape(0xDC00 + ((code - 0x10000) & 0x3FF));
      return;
    }
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[code >> shift & 15];
  }

  Heap& heap_;
  const JsonStyle& style_;
  std::string out_;
  bool any_input_ = false;
  int depth_ = 0;
};

}  // namespace

TextPtr to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value);
  return writer.finish();
}

}  // namespace monograph::jinja
