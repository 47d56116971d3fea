// Chat messages → prompt text → ids, such that control tokens come only from the template, never from what users wrote
// (TK11).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace monograph {

/// Immutable and thread-safe.
class ChatPrompt {
 public:
  /// The tokenizer outlives this. Throws as ChatTemplate does.
  ChatPrompt(std::string_view template_source, const Tokenizer& tokenizer);

  /// The template's text for `chat`, the JSON text of its variables (messages, tools, ...). Throws
  /// Error(kInvalidArgument) with field "messages".
  std::string render(const std::string& chat) const;
  std::vector<TokenId> encode(const std::string& chat) const;

 private:
  TemplateValue variables(const std::string& chat) const;
  std::string render(const TemplateValue& variables) const;
  /// Marks every control token's text inside `text`, and any beginning of one at its end. Returns whether it did.
  bool mark(std::string& text) const;
  bool mark_strings(TemplateValue& value) const;
  std::size_t control_at(std::string_view text, std::size_t at) const;
  std::vector<TokenId> encode_marked(std::string_view text) const;

  const Tokenizer* tokenizer_;
  ChatTemplate template_;
  std::string bos_, eos_;
  std::vector<std::vector<std::string>> controls_;  // texts of control tokens by first byte, longest first
};

}  // namespace monograph
