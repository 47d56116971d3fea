// GPT-2's alphabet: every byte written as one printable character, the way byte-level vocabularies spell tokens.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace monograph {

/// The bytes that a vocabulary entry stands for; nullopt if it holds a character outside the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view entry);
/// The entry that stands for `bytes`.
std::string alphabet_from_bytes(std::string_view bytes);

}  // namespace monograph
