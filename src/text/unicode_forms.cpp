#include "text/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "monograph/error.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

constexpr int kMaxParts = 18;  // U+FDFA, a whole sentence, has the most

bool is_compatible(NormalForm form) { return form == NormalForm::kNfkc || form == NormalForm::kNfkd; }
bool is_composed(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

void append_decomposed(NormalForm form, std::vector<utf8proc_int32_t>& out, char32_t code) {
  utf8proc_int32_t parts[kMaxParts];
  int boundary_class = 0;
  const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (is_compatible(form) ? UTF8PROC_COMPAT : 0);
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, kMaxParts,
                                         static_cast<utf8proc_option_t>(options), &boundary_class);
  if (n < 0 || n > kMaxParts)
    throw Error(ErrorCode::kInternal, "Unicode: a character has no decomposition of at most 18 parts");
  out.insert(out.end(), parts, parts + n);
}

// The library orders marks by swapping neighbours, quadratic in a long run of them; a stable sort is not.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (std::size_t begin = 0; begin < codes.size();) {
    std::size_t end = begin;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + begin, codes.begin() + end,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end + 1;
  }
}

void append_ordered(NormalForm form, std::string& out, std::vector<utf8proc_int32_t>& codes) {
  if (codes.empty()) return;
  order_marks(codes);
  auto n = static_cast<utf8proc_ssize_t>(codes.size());
  if (is_composed(form))
    n = utf8proc_normalize_utf32(codes.data(), n, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(codes[i]));
  codes.clear();
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  // U+0300, the first character that composition can touch, starts with byte 0xCC.
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

std::string to_form(NormalForm form, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_char_at(text, at);
    if (c.well_formed)
      append_decomposed(form, codes, c.code);
    else {
      append_ordered(form, out, codes);
      out.append(text, at, c.length);
    }
    at += c.length;
  }
  append_ordered(form, out, codes);
  return out;
}

}  // namespace monograph
