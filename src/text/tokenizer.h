// Strings to token ids and back, for byte-level BPE, SPM-style BPE and unigram vocabularies.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"

namespace monograph {

using TokenId = std::int32_t;

enum class TokenizerModel { kByteBpe, kSpmBpe, kUnigram };
/// What a vocabulary entry is (values of GGUF's token_type).
enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// Everything a tokenizer is made of, as a file states it. Filled from GGUF metadata or tokenizer.json.
struct TokenizerSpec {
  struct AddedToken {
    TokenId id = 0;
    std::string content;
    bool special = false, lstrip = false, rstrip = false, single_word = false, normalized = false;
  };
  TokenizerModel model = TokenizerModel::kByteBpe;
  std::string pre;                  ///< Pre-tokenizer family: "gpt-2", "llama-bpe", "qwen2", "smollm", "starcoder", ...
  std::vector<std::string> tokens;  ///< Text of each id, in the vocabulary's own alphabet (byte-level or U+2581).
  std::vector<TokenType> types;     ///< One per token.
  std::vector<double> scores;       ///< SPM and unigram only: natural logarithms of probabilities, or ranks.
  std::vector<std::pair<std::string, std::string>>
      merges;                     ///< Byte BPE (and SPM vocabularies that carry merges), in rank order.
  std::vector<AddedToken> added;  ///< Matched before pre-tokenizing, leftmost-longest.
  std::optional<TokenId> bos, eos, eot, unk, pad;
  std::vector<TokenId> eog;  ///< Every id that ends a generation, from all sources.
  bool add_bos = false, add_eos = false;
  std::vector<NormalizeStep> normalizers;  ///< Applied between added tokens, before anything else.
  // SPM and unigram:
  bool split_at_spaces = false;          ///< White space only parts words, each of which is tokenized by itself.
  bool add_space_prefix = true;          ///< A space before the text and after each added token.
  bool space_prefix_first_only = false;  ///< That space only before the text, not after added tokens.
  bool metaspace = false;                ///< No such space where there is one already.
  bool split_words = false;              ///< No token reaches across the start of a word.
  bool ignore_merges = false;  ///< BPE: a whole piece found in the vocabulary is taken before merging (Llama 3).
  bool byte_fallback = false, fuse_unk = false;
};

struct EncodeOptions {
  bool add_special =
      true;  ///< Add BOS/EOS where the vocabulary asks for it. Off for text that a chat template rendered.
  bool parse_special =
      false;  ///< Control tokens written in the text become the tokens; else they stay plain text (TK11).
};

/// Immutable and thread-safe once built.
class Tokenizer {
 public:
  /// Throws Error(kUnreadableFile) for an inconsistent spec, kUnsupported for an unknown `pre`, naming it.
  explicit Tokenizer(TokenizerSpec spec);
  /// Reads a Hugging Face tokenizer.json (and, when not empty, tokenizer_config.json next to it) into a spec.
  static TokenizerSpec spec_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  const TokenizerSpec& spec() const;
  int vocab_size() const;
  /// Any bytes are legal text. Linear time, no recursion (TK09).
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  /// The bytes of one id; empty for control tokens unless `with_special`. Ids outside the vocabulary give nothing.
  std::string token_bytes(TokenId id, bool with_special = false) const;
  /// Bytes of all ids; may hold invalid UTF-8 if the ids do. SPM and unigram: drops the space that encode() put in
  /// front.
  std::string decode(std::span<const TokenId> ids, bool with_special = false) const;
  bool is_control(TokenId id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Replaces each ill-formed UTF-8 sequence by U+FFFD (maximal subparts, as the WHATWG decoder does).
std::string to_valid_utf8(std::string_view bytes);

}  // namespace monograph
