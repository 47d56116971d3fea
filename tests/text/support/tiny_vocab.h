// Vocabularies small enough to read, built in the test.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_byte_alphabet.h"

namespace monograph {

inline TokenId token_id(const TokenizerSpec& spec, const std::string& entry) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), entry);
  return it == spec.tokens.end() ? -1 : static_cast<TokenId>(it - spec.tokens.begin());
}

inline void add_token(TokenizerSpec& spec, const std::string& entry, TokenType type) {
  spec.tokens.push_back(entry);
  spec.types.push_back(type);
}

inline void add_special(TokenizerSpec& spec, const std::string& content) {
  spec.added.push_back({static_cast<TokenId>(spec.tokens.size()), content, true, false, false, false, false});
  add_token(spec, content, TokenType::kControl);
}

/// A merge of two entries of the byte alphabet, and the token it makes if that is new.
inline void add_merge(TokenizerSpec& spec, const std::string& left, const std::string& right) {
  spec.merges.emplace_back(left, right);
  if (token_id(spec, left + right) < 0) add_token(spec, left + right, TokenType::kNormal);
}

/// 256 bytes, a few merges, three special tokens (<s> is BOS).
inline TokenizerSpec tiny_byte_spec(const std::string& pre = "gpt-2") {
  TokenizerSpec spec;
  spec.pre = pre;
  spec.add_space_prefix = false;
  for (int byte = 0; byte < 256; ++byte)
    add_token(spec, alphabet_from_bytes(std::string(1, static_cast<char>(byte))), TokenType::kNormal);
  const std::string space = alphabet_from_bytes(" ");
  add_merge(spec, "h", "e");
  add_merge(spec, "l", "l");
  add_merge(spec, "he", "ll");
  add_merge(spec, "hell", "o");
  add_merge(spec, space, "w");
  add_merge(spec, "o", "r");
  add_merge(spec, space, space);
  add_merge(spec, space + space, space + space);
  add_merge(spec, "A", "A");
  add_merge(spec, "AA", "AA");
  for (const char* content : {"<s>", "<|im_start|>", "<|im_end|>"}) add_special(spec, content);
  spec.bos = token_id(spec, "<s>");
  spec.eos = token_id(spec, "<|im_end|>");
  spec.eog = {*spec.eos};
  return spec;
}

/// <unk> <s> </s>, 256 byte tokens, a few pieces with scores.
inline TokenizerSpec tiny_spm_spec() {
  TokenizerSpec spec;
  spec.model = TokenizerModel::kSpmBpe;
  spec.byte_fallback = true;
  add_special(spec, "<unk>");
  spec.types[0] = TokenType::kUnknown;
  add_special(spec, "<s>");
  add_special(spec, "</s>");
  const char* digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    add_token(spec, std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", TokenType::kByte);
  const std::string mark = "\u2581";
  const std::vector<std::string> pieces = {"he",       "ll",       "hell",     "hello",     mark + "hello",
                                           mark + "a", mark + "b", mark + "c", mark + mark, mark,
                                           "a",        "b",        "c",        "h",         "e",
                                           "l",        "o",        ".",        "x",         "y"};
  for (const std::string& piece : pieces) add_token(spec, piece, TokenType::kNormal);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) spec.scores.push_back(-static_cast<float>(i));
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  spec.add_bos = true;
  spec.eog = {2};
  return spec;
}

/// <unk> <s> </s>, the bytes of tiny_spm_spec() and pieces whose scores make "ab" + "c" as good as "a" + "bc".
inline TokenizerSpec tiny_unigram_spec() {
  TokenizerSpec spec = tiny_spm_spec();
  const std::size_t n_kept = 3 + 256;
  spec.model = TokenizerModel::kUnigram;
  spec.byte_fallback = spec.add_bos = false;
  spec.metaspace = spec.split_words = true;
  spec.tokens.resize(n_kept);
  spec.types.resize(n_kept);
  spec.scores.assign(n_kept, 0.0);
  const std::string mark = "\u2581";
  for (const auto& [piece, score] : std::vector<std::pair<std::string, double>>{{mark, -2},
                                                                                {"a", -4},
                                                                                {"b", -4},
                                                                                {"c", -4},
                                                                                {"ab", -5},
                                                                                {"bc", -5},
                                                                                {"aaa", -3},
                                                                                {mark + "a", -3},
                                                                                {mark + "x", -8},
                                                                                {"x", -4},
                                                                                {"y", -8},
                                                                                {mark + "y", -3},
                                                                                {"=", -4},
                                                                                {"==", -4.5}}) {
    add_token(spec, piece, TokenType::kNormal);
    spec.scores.push_back(score);
  }
  return spec;
}

/// What merging means, by looking at every pair again and again.
inline void merge_slowly(const TokenizerSpec& spec, std::vector<TokenId>& symbols) {
  for (;;) {
    std::size_t best = symbols.size(), best_rank = spec.merges.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::pair pair(spec.tokens[symbols[i]], spec.tokens[symbols[i + 1]]);
      const std::size_t rank = std::find(spec.merges.begin(), spec.merges.end(), pair) - spec.merges.begin();
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best == symbols.size()) return;
    symbols[best] = token_id(spec, spec.merges[best_rank].first + spec.merges[best_rank].second);
    symbols.erase(symbols.begin() + best + 1);
  }
}

inline TokenId byte_id(const Tokenizer& tokenizer, unsigned char byte) {
  return token_id(tokenizer.spec(), alphabet_from_bytes(std::string(1, static_cast<char>(byte))));
}
inline TokenId spm_id(const Tokenizer& tokenizer, const std::string& entry) {
  return token_id(tokenizer.spec(), entry);
}

}  // namespace monograph
