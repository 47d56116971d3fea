#include "text/tokenizer_added.h"

#include <algorithm>

#include "text/unicode_classes.h"
#include "text/unicode_utf8.h"

namespace monograph {
namespace {

// \w : letters, marks, numbers and the underscore (other connectors are not in the table).
bool is_word(const Utf8Char& c) {
  if (!c.well_formed) return false;
  const CharClass what = class_of(c.code);
  return c.code == '_' || what == CharClass::kLetter || what == CharClass::kMark || what == CharClass::kNumber;
}

bool is_space(const Utf8Char& c) { return c.well_formed && class_of(c.code) == CharClass::kSpace; }

// The character that ends at `end`; ill-formed if none does.
Utf8Char char_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  const Utf8Char c = utf8_char_at(text, at);
  return at + c.length == end ? c : Utf8Char{};
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<TokenizerSpec::AddedToken>& tokens, bool normalized) : nodes_(1) {
  for (const auto& token : tokens) {
    if (token.normalized != normalized || token.content.empty()) continue;
    insert(token.content, static_cast<int>(kept_.size()));
    first_bytes_.set(static_cast<unsigned char>(token.content[0]));
    kept_.push_back(token);
  }
}

int AddedTokens::child(int node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto it = std::lower_bound(children.begin(), children.end(), std::pair<unsigned char, int>(byte, -1));
  return it != children.end() && it->first == byte ? it->second : -1;
}

void AddedTokens::insert(const std::string& content, int token) {
  int node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    int next = child(node, byte);
    if (next < 0) {
      next = static_cast<int>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      children.insert(std::lower_bound(children.begin(), children.end(), std::pair<unsigned char, int>(byte, -1)),
                      {byte, next});
    }
    node = next;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, std::size_t at, bool with_special) const {
  Match match;
  int node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (node < 0) break;
    const int token = nodes_[node].token;
    if (token >= 0 && (with_special || !kept_[token].special)) match = {at, i + 1, token};
  }
  return match;
}

bool AddedTokens::stands_alone(std::string_view text, const Match& match) const {
  const bool before = match.begin > 0 && is_word(char_before(text, match.begin));
  const bool after = match.end < text.size() && is_word(utf8_char_at(text, match.end));
  return !before && !after;
}

void AddedTokens::split(std::string_view text, bool with_special, std::vector<TextSegment>& segments) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    Match match;
    if (first_bytes_[static_cast<unsigned char>(text[at])]) match = longest_at(text, at, with_special);
    if (match.token < 0) {
      ++at;
      continue;
    }
    at = match.end;
    const auto& token = kept_[match.token];
    if (token.single_word && !stands_alone(text, match)) continue;
    if (token.lstrip)
      while (match.begin > done && is_space(char_before(text, match.begin)))
        match.begin -= char_before(text, match.begin).length;
    if (token.rstrip)
      while (match.end < text.size() && is_space(utf8_char_at(text, match.end)))
        match.end += utf8_char_at(text, match.end).length;
    if (match.begin > done) segments.push_back({text.substr(done, match.begin - done), -1});
    segments.push_back({text.substr(match.begin, match.end - match.begin), token.id});
    at = done = match.end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), -1});
}

}  // namespace monograph
