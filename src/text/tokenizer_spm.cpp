#include <algorithm>
#include <queue>

#include "monograph/error.h"
#include "text/tokenizer_models.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

constexpr TokenId kNone = -1;
constexpr std::string_view kSpaceMark = "\u2581";

[[noreturn]] void refuse_merge(std::size_t rank, const std::string& left, const std::string& right) {
  throw Error(ErrorCode::kUnreadableFile, "tokenizer merges[" + std::to_string(rank) + "]: \"" +
                                              to_valid_utf8(left + " " + right) + "\" is not in the vocabulary");
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// SentencePiece's merging: of all neighbours that are a piece together, the pair with the highest score becomes one,
// the leftmost of equals, until there is none. Chars are chained, candidates wait in a heap: O(n log n).
template <typename ScoreOf>
class ScoreMerge {
 public:
  ScoreMerge(std::string_view text, ScoreOf score_of) : score_of_(std::move(score_of)) {
    for (std::size_t at = 0; at < text.size();) {
      const int length = utf8_char_at(text, at).length;
      const int i = static_cast<int>(parts_.size());
      parts_.push_back({text.substr(at, length), i - 1, i + 1});
      at += length;
    }
  }

  std::vector<std::string_view> run() {
    for (int i = 0; i + 1 < size(); ++i) propose(i, i + 1);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      if (is_current(best)) merge(best);
    }
    std::vector<std::string_view> pieces;
    for (const Part& part : parts_)
      if (!part.text.empty()) pieces.push_back(part.text);
    return pieces;
  }

 private:
  struct Part {
    std::string_view text;  // empty once merged into its left neighbour
    int previous, next;     // -1 and size() at the ends
  };
  struct Candidate {
    double score;
    int left, right;
    std::size_t n_bytes;
    bool operator<(const Candidate& other) const {  // for a max-heap
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  int size() const { return static_cast<int>(parts_.size()); }
  std::size_t bytes_of(int left, int right) const { return parts_[left].text.size() + parts_[right].text.size(); }

  void propose(int left, int right) {
    if (left < 0 || right >= size()) return;
    const std::size_t n_bytes = bytes_of(left, right);
    if (const auto score = score_of_({parts_[left].text.data(), n_bytes})) queue_.push({*score, left, right, n_bytes});
  }

  // Parts only grow until they vanish, so the same sum of bytes means that neither has changed.
  bool is_current(const Candidate& c) const {
    return !parts_[c.left].text.empty() && !parts_[c.right].text.empty() && bytes_of(c.left, c.right) == c.n_bytes;
  }

  void merge(const Candidate& c) {
    Part& left = parts_[c.left];
    left.text = {left.text.data(), c.n_bytes};
    left.next = parts_[c.right].next;
    parts_[c.right].text = {};
    if (left.next < size()) parts_[left.next].previous = c.left;
    propose(left.previous, c.left);
    propose(c.left, left.next);
  }

  ScoreOf score_of_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

int spm_byte_value(std::string_view entry) {
  if (entry.size() != 6 || entry.substr(0, 3) != "<0x" || entry[5] != '>') return -1;
  const int high = hex_digit(entry[3]), low = hex_digit(entry[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(kSpaceMark, 1)); }

SpmModel::SpmModel(const TokenizerSpec& spec)
    : scores_(spec.scores),
      fuse_unk_(spec.fuse_unk),
      by_rank_(!spec.merges.empty() || spec.scores.empty()),
      ignore_merges_(spec.ignore_merges),
      split_words_(spec.split_words),
      unk_(spec.unk.value_or(kNone)),
      merges_(spec.merges.size()) {
  byte_ids_.fill(kNone);
  int n_bytes = 0;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const int value = spec.types[i] == TokenType::kByte ? spm_byte_value(spec.tokens[i]) : -1;
    if (value >= 0 && byte_ids_[value] == kNone) {
      byte_ids_[value] = id;
      ++n_bytes;
    } else if (is_plain(spec.types[i]) && !spec.tokens[i].empty()) {
      ids_.emplace(spec.tokens[i], id);
      max_token_bytes_ = std::max(max_token_bytes_, spec.tokens[i].size());
    }
  }
  has_bytes_ = spec.byte_fallback && n_bytes == 256;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const TokenId merged = find(left + right), left_id = find(left), right_id = find(right);
    if (merged == kNone || left_id == kNone || right_id == kNone) refuse_merge(rank, left, right);
    merges_.add(left_id, right_id, static_cast<int>(rank), merged);
  }
}

TokenId SpmModel::find(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? kNone : it->second;
}

void SpmModel::append_char(std::string_view c, std::vector<TokenId>& ids) const {
  if (const TokenId id = find(c); id != kNone) {
    ids.push_back(id);
  } else if (has_bytes_) {
    for (const char byte : c) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else if (unk_ != kNone && !(fuse_unk_ && !ids.empty() && ids.back() == unk_)) {
    ids.push_back(unk_);
  }
}

void SpmModel::encode(std::string_view text, std::vector<TokenId>& ids) const {
  if (!by_rank_) return encode_by_score(text, ids);
  if (!split_words_) return encode_by_rank(text, ids);
  while (!text.empty()) {
    const std::string_view word = first_word(text);
    encode_by_rank(word, ids);
    text.remove_prefix(word.size());
  }
}

void SpmModel::encode_by_rank(std::string_view text, std::vector<TokenId>& ids) const {
  if (const TokenId whole = ignore_merges_ ? find(text) : kNone; whole != kNone) return ids.push_back(whole);
  std::vector<TokenId> symbols;
  for (std::size_t at = 0; at < text.size();) {
    const int length = utf8_char_at(text, at).length;
    append_char(text.substr(at, length), symbols);
    at += length;
  }
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void SpmModel::encode_by_score(std::string_view text, std::vector<TokenId>& ids) const {
  ScoreMerge merge(text, [&](std::string_view piece) -> std::optional<double> {
    const TokenId id = piece.size() <= max_token_bytes_ ? find(piece) : kNone;
    return id == kNone ? std::nullopt : std::optional(scores_[id]);
  });
  for (const std::string_view piece : merge.run()) append_char(piece, ids);
}

}  // namespace monograph
