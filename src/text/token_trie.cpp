#include "text/token_trie.h"

namespace monograph {

// Breadth first over the sorted entries: the children of a node are the stretches of its stretch that agree in the next
// byte.
TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, TokenId>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Stretch {
    std::size_t begin, end, depth;
  };
  std::vector<Stretch> stretches = {{0, entries.size(), 0}};
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    auto [begin, end, depth] = stretches[at];
    for (; begin < end && entries[begin].first.size() == depth; ++begin)
      if (depth > 0) nodes_[at].id = entries[begin].second;
    nodes_[at].first_child = static_cast<std::int32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      std::size_t stop = begin + 1;
      while (stop < end && entries[stop].first[depth] == byte) ++stop;
      nodes_.emplace_back().byte = static_cast<unsigned char>(byte);
      stretches.push_back({begin, stop, depth + 1});
      begin = stop;
    }
    nodes_[at].n_children = static_cast<std::uint16_t>(nodes_.size() - nodes_[at].first_child);
  }
}

}  // namespace monograph
