// Added tokens: found in the text before anything else, leftmost first, the longest of those that start there.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace monograph {

/// A stretch of text that is one added token (`id` set) or that is yet to be tokenized (`id` < 0).
struct TextSegment {
  std::string_view text;
  TokenId id = -1;
};

/// Immutable once built. A scan costs O(text x longest added token) at worst, O(text) in practice.
class AddedTokens {
 public:
  /// Keeps those whose `normalized` is as given; the others are matched in another pass.
  AddedTokens(const std::vector<TokenizerSpec::AddedToken>& tokens, bool normalized);
  bool empty() const { return kept_.empty(); }
  /// Appends the segments of `text`. Special tokens count only if `with_special`.
  void split(std::string_view text, bool with_special, std::vector<TextSegment>& segments) const;

 private:
  struct Match {
    std::size_t begin = 0, end = 0;
    int token = -1;
  };
  struct Node {
    std::vector<std::pair<unsigned char, int>> children;  // sorted by byte
    int token = -1;
  };

  int child(int node, unsigned char byte) const;
  void insert(const std::string& content, int token);
  Match longest_at(std::string_view text, std::size_t at, bool with_special) const;
  bool stands_alone(std::string_view text, const Match& match) const;

  std::vector<TokenizerSpec::AddedToken> kept_;
  std::vector<Node> nodes_;
  std::bitset<256> first_bytes_;
};

}  // namespace monograph
