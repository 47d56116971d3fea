#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>

#include "monograph/error.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_byte_alphabet.h"
#include "text/tokenizer_models.h"
#include "text/unicode_nfc.h"

namespace monograph {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUnreadableFile, "tokenizer: " + why); }

void check_id(const TokenizerSpec& spec, TokenId id, const std::string& what) {
  if (id < 0 || static_cast<std::size_t>(id) >= spec.tokens.size())
    refuse(what + " is " + std::to_string(id) + ", the vocabulary has " + std::to_string(spec.tokens.size()) +
           " tokens");
}

void check_spec(const TokenizerSpec& spec) {
  const std::size_t n = spec.tokens.size();
  if (n == 0) refuse("the vocabulary is empty");
  if (n > std::size_t{1} << 24) refuse("the vocabulary has " + std::to_string(n) + " tokens, more than 2^24");
  if (spec.types.size() != n)
    refuse("token types: expected " + std::to_string(n) + ", found " + std::to_string(spec.types.size()));
  if (!spec.scores.empty() && spec.scores.size() != n)
    refuse("scores: expected " + std::to_string(n) + ", found " + std::to_string(spec.scores.size()));
  if (std::any_of(spec.scores.begin(), spec.scores.end(), [](float score) { return std::isnan(score); }))
    refuse("scores: one is not a number");
  for (const auto& [id, what] : {std::pair(spec.bos, "bos"), std::pair(spec.eos, "eos"), std::pair(spec.eot, "eot"),
                                 std::pair(spec.unk, "unk"), std::pair(spec.pad, "pad")})
    if (id) check_id(spec, *id, std::string(what) + " token");
  for (const TokenId id : spec.eog) check_id(spec, id, "end-of-generation token");
  for (const auto& token : spec.added) check_id(spec, token.id, "added token \"" + to_valid_utf8(token.content) + "\"");
  if (spec.add_bos && !spec.bos) refuse("BOS is to be added, but there is no BOS token");
  if (spec.add_eos && !spec.eos) refuse("EOS is to be added, but there is no EOS token");
}

SplitStyle style_of(const std::string& pre) {
  if (const auto family = find_pre_tokenizer(pre)) return family->style;
  if (pre.empty() || pre == "default")
    throw Error(ErrorCode::kUnsupported, "tokenizer.ggml.pre: \"" + pre +
                                             "\" does not say how text is split; convert the model again with a "
                                             "recent converter");
  throw Error(ErrorCode::kUnsupported, "tokenizer.ggml.pre: unknown pre-tokenizer \"" + to_valid_utf8(pre) + "\"");
}

std::unique_ptr<SubwordModel> make_model(const TokenizerSpec& spec) {
  if (spec.model == TokenizerModel::kByteBpe) return std::make_unique<ByteBpeModel>(spec, style_of(spec.pre));
  return std::make_unique<SpmModel>(spec);
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find(from, at), text.size());
    out.append(text, at, next - at);
    if (next < text.size()) out += to;
    at = next + from.size();
  }
  return out;
}

std::string bytes_of(const TokenizerSpec& spec, std::size_t id) {
  const std::string& entry = spec.tokens[id];
  const TokenType type = spec.types[id];
  const bool is_added = type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
  if (is_added) return entry;
  if (spec.model == TokenizerModel::kByteBpe) return bytes_from_alphabet(entry).value_or(entry);
  const int value = type == TokenType::kByte ? spm_byte_value(entry) : -1;
  return value >= 0 ? std::string(1, static_cast<char>(value)) : replaced(entry, kSpaceMark, " ");
}

// Content that is matched after normalising is normalised itself.
std::vector<TokenizerSpec::AddedToken> normalised_added(const TokenizerSpec& spec) {
  auto added = spec.added;
  for (auto& token : added) {
    token.normalized = token.normalized && spec.nfc;
    if (token.normalized) token.content = to_nfc(token.content);
  }
  return added;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec given)
      : spec(std::move(given)),
        raw_added(normalised_added(spec), /*normalized=*/false),
        nfc_added(normalised_added(spec), /*normalized=*/true),
        model(make_model(spec)) {
    bytes.reserve(spec.tokens.size());
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) bytes.push_back(bytes_of(spec, id));
  }

  bool knows(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < bytes.size(); }

  void encode_byte_level(std::string_view text, bool with_special, std::vector<TokenId>& ids) const {
    std::string normal;
    if (spec.nfc && !is_surely_nfc(text)) text = normal = to_nfc(text);
    if (nfc_added.empty()) return model->encode(text, ids);
    std::vector<TextSegment> segments;
    nfc_added.split(text, with_special, segments);
    for (const TextSegment& segment : segments)
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        model->encode(segment.text, ids);
  }

  void encode_spm(std::string_view text, bool is_first, std::vector<TokenId>& ids) const {
    std::string marked = replaced(text, " ", kSpaceMark);
    const bool prefix = spec.add_space_prefix && (is_first || !spec.space_prefix_first_only) &&
                        !(spec.metaspace && marked.starts_with(kSpaceMark));
    if (prefix) marked.insert(0, kSpaceMark);
    model->encode(marked, ids);
  }

  TokenizerSpec spec;
  AddedTokens raw_added, nfc_added;
  std::unique_ptr<SubwordModel> model;
  std::vector<std::string> bytes;  // of each id
};

Tokenizer::Tokenizer(TokenizerSpec spec) {
  check_spec(spec);
  impl_ = std::make_unique<Impl>(std::move(spec));
}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

const TokenizerSpec& Tokenizer::spec() const { return impl_->spec; }

int Tokenizer::vocab_size() const { return static_cast<int>(impl_->bytes.size()); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TokenizerSpec& spec = impl_->spec;
  if (text.size() > kMaxTextBytes)
    throw Error(ErrorCode::kInvalidArgument,
                "text of " + std::to_string(text.size()) + " bytes, at most 2^30 can be tokenized");
  std::vector<TokenId> ids;
  if (options.add_special && spec.add_bos) ids.push_back(*spec.bos);
  std::vector<TextSegment> segments;
  impl_->raw_added.split(text, options.parse_special, segments);
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0)
      ids.push_back(segment.id);
    else if (spec.model == TokenizerModel::kByteBpe)
      impl_->encode_byte_level(segment.text, options.parse_special, ids);
    else
      impl_->encode_spm(segment.text, segment.text.data() == text.data(), ids);
  }
  if (options.add_special && spec.add_eos) ids.push_back(*spec.eos);
  return ids;
}

std::string Tokenizer::token_bytes(TokenId id, bool with_special) const {
  return impl_->knows(id) && (with_special || !is_control(id)) ? impl_->bytes[id] : std::string();
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool with_special) const {
  std::string out;
  for (const TokenId id : ids)
    if (impl_->knows(id) && (with_special || !is_control(id))) out += impl_->bytes[id];
  const TokenizerSpec& spec = impl_->spec;
  if (spec.model == TokenizerModel::kSpmBpe && spec.add_space_prefix && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

bool Tokenizer::is_control(TokenId id) const {
  if (!impl_->knows(id)) return false;
  const TokenType type = impl_->spec.types[id];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

}  // namespace monograph
