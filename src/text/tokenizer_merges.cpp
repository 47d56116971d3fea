#include "text/tokenizer_merges.h"

#include <bit>
#include <limits>
#include <queue>

namespace monograph {
namespace {

// Up to this length a scan for the best pair beats a heap.
constexpr std::size_t kShort = 48;
constexpr int kNoRank = std::numeric_limits<int>::max();

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

struct Candidate {
  int rank, left, right;
  TokenId left_id, right_id, merged;
  bool operator<(const Candidate& other) const {  // for a max-heap: the best is the lowest rank, then the leftmost
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

MergeTable::MergeTable(std::size_t n)
    : entries_(std::bit_ceil(2 * n + 2)), mask_(entries_.size() - 1), shift_(64 - std::countr_zero(entries_.size())) {}

void MergeTable::add(TokenId left, TokenId right, int rank, TokenId merged) {
  const std::uint64_t key = pair_key(left, right);
  std::size_t at = home(key);
  while (entries_[at].pair != kEmpty && entries_[at].pair != key) at = (at + 1) & mask_;
  if (entries_[at].pair == kEmpty) entries_[at] = {key, rank, merged};
}

const MergeTable::Entry* MergeTable::find(TokenId left, TokenId right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t at = home(key); entries_[at].pair != kEmpty; at = (at + 1) & mask_)
    if (entries_[at].pair == key) return &entries_[at];
  return nullptr;
}

void MergeTable::apply(std::vector<TokenId>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort)
    apply_short(symbols);
  else
    apply_long(symbols);
}

void MergeTable::apply_short(std::vector<TokenId>& symbols) const {
  int ranks[kShort];
  TokenId merged[kShort];
  auto n = static_cast<int>(symbols.size());
  const auto look_up = [&](int i) {  // the pair (i, i + 1)
    const Entry* entry = i + 1 < n ? find(symbols[i], symbols[i + 1]) : nullptr;
    ranks[i] = entry ? entry->rank : kNoRank;
    merged[i] = entry ? entry->merged : 0;
  };
  for (int i = 0; i < n; ++i) look_up(i);
  for (;;) {
    int best = 0;
    for (int i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) break;
    symbols[best] = merged[best];
    for (int i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --n;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  symbols.resize(n);
}

void MergeTable::apply_long(std::vector<TokenId>& symbols) const {
  constexpr TokenId kGone = -1;
  const auto n = static_cast<int>(symbols.size());
  std::vector<int> previous(n), next(n);  // -1 and n at the ends
  std::priority_queue<Candidate> queue;
  const auto propose = [&](int left, int right) {
    if (left < 0 || right >= n) return;
    if (const Entry* entry = find(symbols[left], symbols[right]))
      queue.push({entry->rank, left, right, symbols[left], symbols[right], entry->merged});
  };
  for (int i = 0; i < n; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
    propose(i, i + 1);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const bool current =
        symbols[best.left] == best.left_id && next[best.left] == best.right && symbols[best.right] == best.right_id;
    if (!current) continue;
    symbols[best.left] = best.merged;
    symbols[best.right] = kGone;
    next[best.left] = next[best.right];
    if (next[best.right] < n) previous[next[best.right]] = best.left;
    propose(previous[best.left], best.left);
    propose(best.left, next[best.left]);
  }
  std::erase(symbols, kGone);
}

}  // namespace monograph
