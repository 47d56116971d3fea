// "%s" % x
#include <cstdlib>

#include "text/jinja/arithmetic.h"
#include "text/jinja/escape.h"
#include "text/jinja/format.h"
#include "text/jinja/number_format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_functions.h"
#include "text/jinja/utf8.h"

namespace monograph::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const Text& format, const Value& arguments)
      : heap_(heap), format_(format), arguments_(arguments) {
    const auto* sequence = arguments.object<Sequence>();
    if (sequence && sequence->type == SequenceType::kTuple) tuple_ = &sequence->items;
  }

  TextPtr run() {
    const std::string& bytes = format_.bytes;
    heap_.scan(bytes.size());
    while (at_ < bytes.size()) {
      const std::size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.append_part(format_, at_, percent);
      at_ = percent;
      if (at_ < bytes.size()) directive();
    }
    check_all_used();
    return heap_.counted(out_.finish(format_.markup));
  }

 private:
  char now() const {
    if (at_ >= format_.bytes.size()) fail("incomplete format");
    return format_.bytes[at_];
  }

  void directive() {
    ++at_;
    const Value* named = nullptr;
    if (now() == '(') named = &by_name();
    FormatSpec spec;
    flags(spec);
    spec.width = number(spec, true);
    if (now() == '.') {
      ++at_;
      spec.precision = number(spec, false);
    }
    while (now() == 'h' || now() == 'l' || now() == 'L') ++at_;
    spec.type = now();
    ++at_;
    if (spec.type == '%') return out_.append("%");
    put(spec, named ? *named : next());
  }

  const Value& by_name() {
    const auto* dict = arguments_.object<Dict>();
    if (!dict) fail("format requires a mapping");
    const std::size_t end = format_.bytes.find(')', at_);
    if (end == std::string::npos) fail("incomplete format key");
    const Value* found = dict->find(std::string_view(format_.bytes).substr(at_ + 1, end - at_ - 1));
    if (!found)
      fail("no value for the key " + in_quotes(format_.bytes.substr(at_ + 1, end - at_ - 1)) + " of a format");
    at_ = end + 1;
    return *found;
  }

  void flags(FormatSpec& spec) {
    bool zero = false;
    for (;; ++at_) {
      switch (now()) {
        case '-':
          spec.align = '<';
          continue;
        case '+':
          spec.sign = '+';
          continue;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          continue;
        case '#':
          spec.alternate = true;
          continue;
        case '0':
          zero = true;
          continue;
        default:
          break;
      }
      break;
    }
    if (zero && spec.align == 0) spec.align = '=', spec.fill = "0";
  }

  int number(FormatSpec& spec, bool width) {
    if (now() == '*') {
      ++at_;
      const Int value = require_int(next(), "* of a format");
      if (value > 1 << 20 || value < -(1 << 20)) fail("the width of a format is too large");
      if (width && value < 0) spec.align = '<';
      return static_cast<int>(width && value < 0 ? -value : std::max<Int>(value, 0));
    }
    int value = 0;
    for (; now() >= '0' && now() <= '9'; ++at_) {
      value = value * 10 + (now() - '0');
      if (value > 1 << 20) fail("the width of a format is too large");
    }
    return value;
  }

  const Value& next() {
    if (tuple_) {
      if (used_ >= tuple_->size()) fail("not enough arguments for format string");
      return (*tuple_)[used_++];
    }
    if (used_++ > 0) fail("not enough arguments for format string");
    return arguments_;
  }

  void check_all_used() const {
    // Whatever Python can subscript counts as a mapping, of which nothing need be used.
    const auto* sequence = arguments_.object<Sequence>();
    const bool subscriptable =
        arguments_.object<Dict>() || arguments_.is_undefined() ||
        (sequence && (sequence->type == SequenceType::kList || sequence->type == SequenceType::kRange));
    const bool left = tuple_ ? used_ < tuple_->size() : used_ == 0 && !subscriptable;
    if (left) fail("not all arguments converted during string formatting");
  }

  void put(const FormatSpec& spec, const Value& value) {
    switch (spec.type) {
      case 's':
        return text(spec, to_soft_str(heap_, value));
      case 'r':
        return text(spec, to_repr(heap_, value));
      case 'a':
        unsupported("the format %a");
      case 'c':
        return character(spec, value);
      case 'd':
      case 'i':
      case 'u':
        return integer(spec, 'd', value);
      case 'x':
      case 'X':
      case 'o':
        return integer(spec, spec.type, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(spec, value);
      default:
        fail(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  void text(FormatSpec spec, TextPtr value) {
    if (format_.markup && !value->markup) value = escaped_html(*value);
    if (spec.precision >= 0) value = part_of(value, 0, offset_of(value->bytes, spec.precision));
    if (spec.width <= value->n_chars) {
      out_.append(*value);
    } else {
      spec.fill = " ";
      if (spec.align == '=') spec.align = '>';
      out_.append(aligned(value->bytes, spec, '>'), value->any_input());
    }
    heap_.check_text_size(static_cast<Int>(out_.size()));
  }

  void character(const FormatSpec& spec, const Value& value) {
    if (const TextPtr* letter = value.get<TextPtr>(); letter && (*letter)->n_chars == 1) return text(spec, *letter);
    const auto code = as_int(value);
    if (!code) check_defined(value), fail("%c requires int or char");
    if (*code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF)) fail("%c arg not in range(0x110000)");
    std::string bytes;
    append_character(bytes, static_cast<char32_t>(*code));
    text(spec, make_text(bytes));
  }

  void integer(FormatSpec spec, char type, const Value& value) {
    check_defined(value);
    spec.type = type;
    const double* number = value.get<double>();
    if (!as_int(value) && !(number && type == 'd')) {
      fail(std::string("%") + type + " format: a number is required, not " + type_name(value));
    }
    out_.append(format_integer(number ? truncated(*number) : *as_int(value), spec));
    heap_.check_text_size(static_cast<Int>(out_.size()));
  }

  void real(const FormatSpec& spec, const Value& value) {
    check_defined(value);
    const auto number = as_double(value);
    if (!number) fail("must be real number, not " + type_name(value));
    out_.append(format_double(*number, spec));
    heap_.check_text_size(static_cast<Int>(out_.size()));
  }

  Heap& heap_;
  const Text& format_;
  const Value& arguments_;
  const std::vector<Value>* tuple_ = nullptr;
  std::size_t at_ = 0, used_ = 0;
  TextBuilder out_;
};

}  // namespace

TextPtr printf_style(Heap& heap, const Text& format, const Value& arguments) {
  return PercentFormatter(heap, format, arguments).run();
}

}  // namespace monograph::jinja
