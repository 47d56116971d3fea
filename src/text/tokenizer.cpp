#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>

#include "monograph/error.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_byte_alphabet.h"
#include "text/tokenizer_models.h"
#include "text/unicode_classes.h"
#include "text/unicode_utf8.h"

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
  if (std::any_of(spec.scores.begin(), spec.scores.end(), [](double score) { return std::isnan(score); }))
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
  if (spec.model == TokenizerModel::kUnigram) return std::make_unique<UnigramModel>(spec);
  return std::make_unique<SpmModel>(spec);
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
    token.normalized = token.normalized && !spec.normalizers.empty();
    if (token.normalized) token.content = normalized(spec.normalizers, token.content);
  }
  return added;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec given)
      : spec(std::move(given)),
        raw_added(normalised_added(spec), /*normalized=*/false),
        later_added(normalised_added(spec), /*normalized=*/true),
        model(make_model(spec)) {
    bytes.reserve(spec.tokens.size());
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) bytes.push_back(bytes_of(spec, id));
  }

  bool knows(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < bytes.size(); }

  // A stretch without raw added tokens; `is_first` if the text begins with it.
  void encode_stretch(std::string_view text, bool with_special, bool is_first, std::vector<TokenId>& ids) const {
    std::string normal;
    if (may_change(spec.normalizers, text)) text = normal = normalized(spec.normalizers, text);
    if (later_added.empty()) return encode_plain(text, is_first, ids);
    std::vector<TextSegment> segments;
    later_added.split(text, with_special, segments);
    for (const TextSegment& segment : segments)
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        encode_plain(segment.text, is_first && segment.text.data() == text.data(), ids);
  }

  void encode_plain(std::string_view text, bool is_first, std::vector<TokenId>& ids) const {
    if (spec.model == TokenizerModel::kByteBpe) return model->encode(text, ids);
    if (!spec.split_at_spaces) return encode_marked(text, is_first, ids);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = utf8_char_at(text, at);
      if (c.well_formed && class_of(c.code) == CharClass::kSpace) {
        encode_marked(text.substr(begin, at - begin), is_first && begin == 0, ids);
        begin = at + c.length;
      }
      at += c.length;
    }
    encode_marked(text.substr(begin), is_first && begin == 0, ids);
  }

  // Spaces become marks, and the text gets the one in front that a word has.
  void encode_marked(std::string_view text, bool is_first, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    std::string marked = replaced(text, " ", kSpaceMark);
    const bool prefix = spec.add_space_prefix && (is_first || !spec.space_prefix_first_only) &&
                        !(spec.metaspace && marked.starts_with(kSpaceMark));
    if (prefix) marked.insert(0, kSpaceMark);
    model->encode(marked, ids);
  }

  TokenizerSpec spec;
  AddedTokens raw_added, later_added;
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
    else
      impl_->encode_stretch(segment.text, options.parse_special, segment.text.data() == text.data(), ids);
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
  if (spec.model != TokenizerModel::kByteBpe && spec.add_space_prefix && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

bool Tokenizer::is_control(TokenId id) const {
  if (!impl_->knows(id)) return false;
  const TokenType type = impl_->spec.types[id];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

}  // namespace monograph
