#include "text/detokenizer.h"

#include "text/unicode_utf8.h"

namespace monograph {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool with_special)
    : tokenizer_(&tokenizer), with_special_(with_special) {
  const TokenizerSpec& spec = tokenizer.spec();
  at_start_ = spec.model != TokenizerModel::kByteBpe && spec.add_space_prefix;
}

std::string Detokenizer::push(TokenId id) {
  pending_ += tokenizer_->token_bytes(id, with_special_);
  if (at_start_ && !pending_.empty()) {
    at_start_ = false;
    if (pending_[0] == ' ') pending_.erase(0, 1);  // the space that encode() put in front
  }
  const std::size_t settled = utf8_settled_length(pending_);
  std::string text = to_valid_utf8(std::string_view(pending_).substr(0, settled));
  pending_.erase(0, settled);
  return text;
}

std::string Detokenizer::finish() {
  std::string text = to_valid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace monograph
