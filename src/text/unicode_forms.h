// Unicode normalisation forms of text that may hold ill-formed bytes.
#pragma once
#include <string>
#include <string_view>

namespace monograph {

/// Canonical or compatibility (K) decomposition, composed again (C) or not (D).
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// True if `text` is surely its own NFC: a quick check that looks at no table.
bool is_surely_nfc(std::string_view text);
/// The form of each well-formed stretch; ill-formed bytes stay as they are. O(n log n) for any input.
std::string to_form(NormalForm form, std::string_view text);

}  // namespace monograph
