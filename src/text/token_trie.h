// A vocabulary's entries by their bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace monograph {

/// Immutable once built; 12 bytes a node. Children lie side by side, sorted by byte.
class TokenTrie {
 public:
  TokenTrie() = default;
  /// Of equal texts the last one counts; empty ones do not. O(bytes), no recursion.
  explicit TokenTrie(std::vector<std::pair<std::string_view, TokenId>> entries);
  /// Calls visit(length in bytes, id) for every entry that `text` begins with, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit visit) const {
    std::int32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) return;
      if (nodes_[node].id >= 0) visit(i + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    std::int32_t first_child = 0;
    TokenId id = -1;
    std::uint16_t n_children = 0;
    unsigned char byte = 0;
  };

  std::int32_t child(std::int32_t node, unsigned char byte) const {
    const auto begin = nodes_.begin() + nodes_[node].first_child, end = begin + nodes_[node].n_children;
    const auto it = std::lower_bound(begin, end, byte, [](const Node& n, unsigned char b) { return n.byte < b; });
    return it != end && it->byte == byte ? static_cast<std::int32_t>(it - nodes_.begin()) : -1;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace monograph
