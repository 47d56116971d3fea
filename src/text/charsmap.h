// SentencePiece's precompiled normaliser: a table from characters to what replaces them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monograph {

/// Immutable and thread-safe once built.
class Charsmap {
 public:
  /// `blob`: the trie's size in bytes (32 bits, little-endian), a double-array trie of 32-bit units, and the
  /// replacements, each with a zero byte behind it. Throws Error(kUnreadableFile) for sizes that disagree.
  explicit Charsmap(std::string_view blob);
  /// As the Hugging Face tokenizers read the table: a cluster (what a reader takes for one character) of less than six
  /// bytes whose beginning is in the table becomes that entry's replacement as a whole; other clusters go character by
  /// character. SentencePiece itself replaces the longest match at each place. Ill-formed bytes stay. Linear time.
  std::string apply(std::string_view text) const;

 private:
  const char* find_shortest(std::string_view text) const;  // null if no entry is a prefix of `text`
  void append_cluster(std::string& out, std::string_view cluster) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace monograph
