// Byte-pair merging by rank, on token ids.
#pragma once
#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace monograph {

/// The merges of a vocabulary: which neighbours become which token, and how early. Immutable once filled.
class MergeTable {
 public:
  /// Room for `n` merges.
  explicit MergeTable(std::size_t n);
  /// A pair that is already there keeps its earlier rank.
  void add(TokenId left, TokenId right, int rank, TokenId merged);
  /// Merges `symbols` in place: always the pair of lowest rank, the leftmost of equals. O(n log n).
  void apply(std::vector<TokenId>& symbols) const;

 private:
  struct Entry {
    std::uint64_t pair = kEmpty;
    std::int32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr std::uint64_t kEmpty = ~0ull;

  const Entry* find(TokenId left, TokenId right) const;
  std::size_t home(std::uint64_t pair) const { return pair * 0x9E3779B97F4A7C15ull >> shift_; }
  void apply_short(std::vector<TokenId>& symbols) const;
  void apply_long(std::vector<TokenId>& symbols) const;

  std::vector<Entry> entries_;  // Open addressing, a power of two, at most half full.
  std::size_t mask_;
  int shift_;
};

}  // namespace monograph
