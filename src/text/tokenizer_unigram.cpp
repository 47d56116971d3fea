#include <algorithm>
#include <limits>

#include "monograph/error.h"
#include "text/tokenizer_models.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

constexpr TokenId kNone = -1;
constexpr double kUnknownPenalty = 10.0;  // below the worst entry, as SentencePiece has it

}  // namespace

UnigramModel::UnigramModel(const TokenizerSpec& spec)
    : scores_(spec.scores), byte_fallback_(spec.byte_fallback), split_words_(spec.split_words) {
  if (!spec.unk) throw Error(ErrorCode::kUnreadableFile, "tokenizer: a unigram vocabulary needs an unknown token");
  if (scores_.size() != spec.tokens.size())
    throw Error(ErrorCode::kUnreadableFile, "tokenizer: a unigram vocabulary needs a score for each token");
  unk_ = *spec.unk;
  byte_ids_.fill(kNone);
  std::vector<std::pair<std::string_view, TokenId>> entries;
  double worst = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenType type = spec.types[i];
    if (type != TokenType::kUnused) worst = std::min(worst, scores_[i]);
    if (const int value = type == TokenType::kByte ? spm_byte_value(spec.tokens[i]) : -1; value >= 0)
      byte_ids_[value] = id;
    else if (is_plain(type) && id != unk_)
      entries.emplace_back(spec.tokens[i], id);
  }
  unk_score_ = worst - kUnknownPenalty;
  trie_ = TokenTrie(std::move(entries));
}

void UnigramModel::encode(std::string_view text, std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const std::string_view word = split_words_ ? first_word(text) : text;
    encode_word(word, ids);
    text.remove_prefix(word.size());
  }
}

// Viterbi: for every place the best way to get there, from the left. Of equal scores the first one found stays.
std::vector<UnigramModel::Step> UnigramModel::best_steps(std::string_view text) const {
  std::vector<Step> steps(text.size() + 1);
  const auto propose = [&](std::size_t from, std::size_t to, TokenId id, double score) {
    Step& step = steps[to];
    if (const double sum = steps[from].score + score; step.from < 0 || sum > step.score)
      step = {sum, static_cast<std::int32_t>(from), id};
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto n_bytes = static_cast<std::size_t>(utf8_char_at(text, at).length);
    bool known = false;  // the character alone
    trie_.for_each_prefix(text.substr(at), [&](std::size_t length, TokenId id) {
      known |= length == n_bytes;
      propose(at, at + length, id, scores_[id]);
    });
    if (!known) propose(at, at + n_bytes, unk_, unk_score_);
    at += n_bytes;
  }
  return steps;
}

void UnigramModel::encode_word(std::string_view text, std::vector<TokenId>& ids) const {
  const std::vector<Step> steps = best_steps(text);
  std::vector<std::size_t> ends;
  for (std::size_t end = text.size(); end > 0; end = steps[end].from) ends.push_back(end);
  for (auto it = ends.rbegin(); it != ends.rend(); ++it) {
    const std::size_t begin = steps[*it].from;
    if (steps[*it].id != unk_) {
      ids.push_back(steps[*it].id);
      continue;
    }
    while (it + 1 != ends.rend() && steps[*(it + 1)].id == unk_) ++it;
    append_unknown(text.substr(begin, *it - begin), ids);
  }
}

void UnigramModel::append_unknown(std::string_view run, std::vector<TokenId>& ids) const {
  const bool as_bytes = byte_fallback_ && std::all_of(run.begin(), run.end(), [&](char c) {
                          return byte_ids_[static_cast<unsigned char>(c)] != kNone;
                        });
  if (!as_bytes) return ids.push_back(unk_);
  for (const char c : run) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
}

}  // namespace monograph
