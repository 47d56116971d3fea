// A string value of a template: its bytes, and which of them the caller brought in.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::jinja {

/// Bytes [begin, end).
struct Span {
  std::size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

/// Immutable once shared. `from_input` is sorted, disjoint and without gaps of zero: text of messages and tools, whose
/// control tokens must stay plain text (TK11).
struct Text {
  std::string bytes;
  std::vector<Span> from_input;
  std::int64_t n_chars = 0;
  bool markup = false;  ///< Came through `safe` or `escape`; adding to it escapes the other side.

  bool ascii() const { return n_chars == static_cast<std::int64_t>(bytes.size()); }
  bool any_input() const { return !from_input.empty(); }
};
using TextPtr = std::shared_ptr<const Text>;

/// Builds a Text, or the rendered prompt, from pieces and keeps their marks.
class TextBuilder {
 public:
  void append(std::string_view bytes, bool from_input = false);
  void append(const Text& text) { append_part(text, 0, text.bytes.size()); }
  void append_part(const Text& text, std::size_t begin, std::size_t end);
  std::size_t size() const { return text_.bytes.size(); }
  TextPtr finish(bool markup = false);
  Text take() { return std::move(text_); }

 private:
  void mark(std::size_t begin, std::size_t end);
  Text text_;
};

TextPtr make_text(std::string bytes, bool from_input = false, bool markup = false);
/// Bytes [begin, end) of `text`, marks and markup kept.
TextPtr part_of(const TextPtr& text, std::size_t begin, std::size_t end);
/// `bytes` computed from `source`: wholly input if any of the source was.
TextPtr derived(std::string bytes, const Text& source);

}  // namespace monograph::jinja
