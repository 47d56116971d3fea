#include "text/jinja/escape.h"

namespace monograph::jinja {
namespace {

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

TextPtr escaped_html(const Text& text) {
  TextBuilder builder;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    const std::string_view replacement = entity(text.bytes[i]);
    if (replacement.empty()) continue;
    builder.append_part(text, done, i);
    builder.append(replacement, text.any_input());
    done = i + 1;
  }
  builder.append_part(text, done, text.bytes.size());
  return builder.finish(/*markup=*/true);
}

}  // namespace monograph::jinja
