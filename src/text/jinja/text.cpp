#include "text/jinja/text.h"

#include <algorithm>

#include "text/jinja/utf8.h"

namespace monograph::jinja {

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  auto& spans = text_.from_input;
  if (!spans.empty() && spans.back().end == begin) {
    spans.back().end = end;
  } else {
    spans.push_back({begin, end});
  }
}

void TextBuilder::append(std::string_view bytes, bool from_input) {
  const std::size_t begin = size();
  text_.bytes += bytes;
  if (from_input) mark(begin, size());
}

void TextBuilder::append_part(const Text& text, std::size_t begin, std::size_t end) {
  const std::size_t base = size();
  text_.bytes.append(text.bytes, begin, end - begin);
  for (const Span& span : text.from_input) {
    const std::size_t from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from < to) mark(base + from - begin, base + to - begin);
  }
}

TextPtr TextBuilder::finish(bool markup) {
  text_.n_chars = count_characters(text_.bytes);
  text_.markup = markup;
  return std::make_shared<const Text>(std::move(text_));
}

TextPtr make_text(std::string bytes, bool from_input, bool markup) {
  Text text;
  text.n_chars = count_characters(bytes);
  text.markup = markup;
  if (from_input && !bytes.empty()) text.from_input.push_back({0, bytes.size()});
  text.bytes = std::move(bytes);
  return std::make_shared<const Text>(std::move(text));
}

TextPtr part_of(const TextPtr& text, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == text->bytes.size()) return text;
  TextBuilder builder;
  builder.append_part(*text, begin, end);
  return builder.finish(text->markup);
}

TextPtr derived(std::string bytes, const Text& source) {
  return make_text(std::move(bytes), source.any_input(), source.markup);
}

}  // namespace monograph::jinja
