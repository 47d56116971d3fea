// The Unicode classes that pre-tokenizers ask about, from a generated table (tools/make_unicode_tables.py).
#pragma once
#include <cstdint>

namespace monograph {

enum class CharClass : std::uint8_t { kOther, kLetter, kMark, kNumber, kSpace };

/// The class of a code point: \p{L}, \p{M}, \p{N}, White_Space or none of them. Unassigned and out of range: kOther.
CharClass class_of(char32_t code);

}  // namespace monograph
