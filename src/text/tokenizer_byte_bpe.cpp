#include <algorithm>

#include "monograph/error.h"
#include "text/tokenizer_byte_alphabet.h"
#include "text/tokenizer_models.h"

namespace monograph {
namespace {

constexpr TokenId kNone = -1;

std::unordered_map<std::string_view, TokenId> index_entries(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(spec.tokens.size());
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) ids.emplace(spec.tokens[id], static_cast<TokenId>(id));
  return ids;
}

}  // namespace

bool is_plain(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
}

ByteBpeModel::ByteBpeModel(const TokenizerSpec& spec, SplitStyle style) : style_(style), merges_(spec.merges.size()) {
  byte_ids_.fill(kNone);
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!is_plain(spec.types[id]) || spec.tokens[id].size() > 2) continue;
    const auto bytes = bytes_from_alphabet(spec.tokens[id]);
    if (bytes && bytes->size() == 1) byte_ids_[static_cast<unsigned char>((*bytes)[0])] = static_cast<TokenId>(id);
  }
  add_merges(spec);
  index_pieces(spec);
}

void ByteBpeModel::add_merges(const TokenizerSpec& spec) {
  const auto ids = index_entries(spec);
  const auto look_up = [&](const std::string& entry, std::size_t rank) {
    const auto it = ids.find(entry);
    if (it == ids.end())
      throw Error(ErrorCode::kUnreadableFile, "tokenizer merges[" + std::to_string(rank) + "]: \"" +
                                                  to_valid_utf8(entry) + "\" is not in the vocabulary");
    return it->second;
  };
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    const TokenId merged = look_up(left + right, rank);
    if (!is_plain(spec.types[merged])) continue;  // no text may merge into a control token
    merges_.add(look_up(left, rank), look_up(right, rank), static_cast<int>(rank), merged);
  }
}

void ByteBpeModel::index_pieces(const TokenizerSpec& spec) {
  std::vector<TokenId> symbols;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!is_plain(spec.types[id])) continue;
    const auto bytes = bytes_from_alphabet(spec.tokens[id]);
    if (!bytes || bytes->empty()) continue;
    symbols.clear();
    if (!spec.ignore_merges) merge_piece(*bytes, symbols);
    const bool itself = symbols.size() == 1 && symbols[0] == static_cast<TokenId>(id);
    if (spec.ignore_merges || itself) whole_.emplace(*bytes, static_cast<TokenId>(id));
  }
}

void ByteBpeModel::merge_piece(std::string_view piece, std::vector<TokenId>& symbols) const {
  for (const char c : piece)
    if (const TokenId id = byte_ids_[static_cast<unsigned char>(c)]; id != kNone) symbols.push_back(id);
  merges_.apply(symbols);
}

void ByteBpeModel::encode(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<std::string_view> pieces;
  split_pieces(style_, text, pieces);
  std::vector<TokenId> symbols;
  std::string key;
  for (const std::string_view piece : pieces) {
    key.assign(piece);
    if (const auto it = whole_.find(key); it != whole_.end()) {
      ids.push_back(it->second);
      continue;
    }
    symbols.clear();
    merge_piece(piece, symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
}

}  // namespace monograph
