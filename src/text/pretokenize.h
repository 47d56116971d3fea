// Pre-tokenizers: where byte-level BPE may not merge across. Written by hand: linear, no recursion (TK09).
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace monograph {

/// How text is cut. Each is one of the published patterns; pretokenize.cpp gives them.
enum class SplitStyle { kGpt2, kDigitsGpt2, kLlama3, kQwen2, kQwen35 };

struct PreTokenizer {
  SplitStyle style = SplitStyle::kGpt2;
  bool nfc = false;            ///< The family normalises text to NFC first.
  bool ignore_merges = false;  ///< A whole piece found in the vocabulary is taken before merging.
  bool add_bos = false;        ///< GGUF files of this family that do not say whether to add BOS mean yes.
};

/// The family that GGUF's `tokenizer.ggml.pre` names; nullopt if unknown.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name);

/// Appends the pieces of `text`, in order and without gaps. An ill-formed byte counts as punctuation.
void split_pieces(SplitStyle style, std::string_view text, std::vector<std::string_view>& pieces);

}  // namespace monograph
