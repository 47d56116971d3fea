#include "text/normalizer.h"

#include <algorithm>

#include "text/unicode_classes.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

std::string with_runs_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (text.substr(end).starts_with(from)) end += from.size();
    if (end - at >= 2 * from.size()) {
      out += to;
      at = end;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool is_space_at(std::string_view text, std::size_t at) {
  const Utf8Char c = utf8_char_at(text, at);
  return c.well_formed && class_of(c.code) == CharClass::kSpace;
}

std::string_view stripped(std::string_view text, const StripSpace& strip) {
  while (strip.left && !text.empty() && is_space_at(text, 0)) text.remove_prefix(utf8_char_at(text, 0).length);
  for (std::size_t end = text.size(); strip.right && end > 0;) {
    std::size_t at = end - 1;
    while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_space_at(text, at) || at + utf8_char_at(text, at).length != end) break;
    text = text.substr(0, end = at);
  }
  return text;
}

struct Apply {
  std::string_view text;
  std::string operator()(NormalForm form) const { return to_form(form, text); }
  std::string operator()(const std::shared_ptr<const Charsmap>& map) const { return map->apply(text); }
  std::string operator()(const ReplaceText& r) const {
    return r.runs ? with_runs_replaced(text, r.from, r.to) : replaced(text, r.from, r.to);
  }
  std::string operator()(const StripSpace& strip) const { return std::string(stripped(text, strip)); }
};

}  // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find(from, at), text.size());
    out.append(text, at, next - at);
    if (next < text.size()) out += to;
    at = next + from.size();
  }
  return out;
}

std::string normalized(const std::vector<NormalizeStep>& steps, std::string_view text) {
  std::string out(text);
  for (const NormalizeStep& step : steps) out = std::visit(Apply{out}, step);
  return out;
}

bool may_change(const std::vector<NormalizeStep>& steps, std::string_view text) {
  return std::any_of(steps.begin(), steps.end(), [&](const NormalizeStep& step) {
    const auto* form = std::get_if<NormalForm>(&step);
    return !form || *form != NormalForm::kNfc || !is_surely_nfc(text);
  });
}

}  // namespace monograph
