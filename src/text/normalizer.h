// What a tokenizer does to text before it looks for tokens.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/unicode_forms.h"

namespace monograph {

struct ReplaceText {
  std::string from, to;
  bool runs = false;  ///< Two or more `from` in a row become one `to`; one alone stays.
};
struct StripSpace {
  bool left = false, right = false;
};
using NormalizeStep = std::variant<NormalForm, std::shared_ptr<const Charsmap>, ReplaceText, StripSpace>;

/// `text` after every step, in order. Linear time but for the normal forms (O(n log n)).
std::string normalized(const std::vector<NormalizeStep>& steps, std::string_view text);
/// False only if `normalized` is surely the same text: a quick check.
bool may_change(const std::vector<NormalizeStep>& steps, std::string_view text);
/// Every `from` replaced by `to`, from the left.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace monograph
