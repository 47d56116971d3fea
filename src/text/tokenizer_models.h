// The models behind a Tokenizer: bytes merged by rank, characters merged by score or rank, and the likeliest pieces.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/pretokenize.h"
#include "text/token_trie.h"
#include "text/tokenizer.h"
#include "text/tokenizer_merges.h"

namespace monograph {

/// True for entries that plain text may become: not control, unknown or unused ones (TK11).
bool is_plain(TokenType type);
/// The byte that an SPM entry like "<0x0A>" stands for; -1 if it is none.
int spm_byte_value(std::string_view entry);
/// `text` up to the first U+2581 that is not at its beginning.
std::string_view first_word(std::string_view text);

/// What each model does with a stretch of text between added tokens.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
};

/// Byte-level BPE (GPT-2 and its heirs). A byte that the vocabulary lacks gives nothing, as in the references.
class ByteBpeModel final : public SubwordModel {
 public:
  ByteBpeModel(const TokenizerSpec& spec, SplitStyle style);
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  void add_merges(const TokenizerSpec& spec);
  void index_pieces(const TokenizerSpec& spec);
  void merge_piece(std::string_view piece, std::vector<TokenId>& symbols) const;

  SplitStyle style_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_;
  // Tokens that a whole piece may become without merging: all of them with ignore_merges, else those that merging
  // their own bytes gives. Most words take this way.
  std::unordered_map<std::string, TokenId> whole_;
};

/// SPM-style BPE: U+2581 for spaces, characters merged by score (SentencePiece) or rank (tokenizer.json), bytes for
/// characters that the vocabulary lacks.
class SpmModel final : public SubwordModel {
 public:
  explicit SpmModel(const TokenizerSpec& spec);
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  void encode_by_score(std::string_view text, std::vector<TokenId>& ids) const;
  void encode_by_rank(std::string_view text, std::vector<TokenId>& ids) const;
  TokenId find(std::string_view text) const;  // -1 if absent
  void append_char(std::string_view c, std::vector<TokenId>& ids) const;

  std::unordered_map<std::string_view, TokenId> ids_;  // views into spec.tokens, which outlives this
  const std::vector<double>& scores_;
  std::array<TokenId, 256> byte_ids_;
  bool has_bytes_ = false, fuse_unk_, by_rank_, ignore_merges_, split_words_;
  TokenId unk_;
  std::size_t max_token_bytes_ = 0;
  MergeTable merges_;
};

/// SentencePiece's unigram model: U+2581 for spaces; of all ways to cut a text into entries the one whose scores sum to
/// the most. Neighbouring characters without an entry are one unknown token, or their bytes.
class UnigramModel final : public SubwordModel {
 public:
  explicit UnigramModel(const TokenizerSpec& spec);
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;

 private:
  struct Step {
    double score = 0;        // of the whole way to this place
    std::int32_t from = -1;  // the place before; -1 if no way leads here
    TokenId id = 0;
  };

  std::vector<Step> best_steps(std::string_view text) const;
  void encode_word(std::string_view text, std::vector<TokenId>& ids) const;
  void append_unknown(std::string_view run, std::vector<TokenId>& ids) const;

  const std::vector<double>& scores_;  // of spec, which outlives this
  bool byte_fallback_, split_words_;
  TokenId unk_ = -1;
  double unk_score_ = 0;
  std::array<TokenId, 256> byte_ids_;
  TokenTrie trie_;
};

}  // namespace monograph
