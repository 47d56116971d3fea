#include "text/tokenizer_eog.h"

#include <algorithm>
#include <array>

namespace monograph {
namespace {

// The list that users of llama.cpp know, without its fill-in-the-middle separators. "</s>" counts only where it is an
// added token: some vocabularies hold it as plain text.
constexpr std::array<std::string_view, 18> kEndTexts = {
    "<|im_end|>",       // ChatML: Qwen, SmolLM
    "<|eot_id|>",       // Llama 3: end of turn
    "<|eom_id|>",       // Llama 3: end of message, a tool call follows
    "<|end_of_text|>",  // Llama 3, Granite
    "<|endoftext|>",    // GPT-2 and its heirs
    "<|end|>",          // Phi-3
    "<|return|>",       // gpt-oss
    "<|call|>",         // gpt-oss
    "<end_of_turn>",    // Gemma 2, 3
    "<turn|>",          // Gemma 4
    "<eos>",            // Gemma
    "</s>",             // Llama 2, Mistral
    "<EOT>",            // CodeLlama and others
    "_<EOT>",
    "[EOT]",                  // Kimi
    "[EOS]",                  // Kimi
    "<end_of_utterance>",     // SmolVLM
    "<｜end▁of▁sentence｜>",  // DeepSeek
};

void add(std::vector<TokenId>& ids, std::optional<TokenId> id) {
  if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
}

}  // namespace

void collect_eog(TokenizerSpec& spec) {
  add(spec.eog, spec.eos);
  add(spec.eog, spec.eot);
  bool has_return = false;
  std::optional<TokenId> end;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string_view text = spec.tokens[i];
    if (text.size() < 4 || std::find(kEndTexts.begin(), kEndTexts.end(), text) == kEndTexts.end()) continue;
    const auto id = static_cast<TokenId>(i);
    if (text == "</s>" && spec.types[i] == TokenType::kNormal) continue;
    if (spec.types[i] != TokenType::kUnknown) spec.types[i] = TokenType::kControl;
    has_return |= text == "<|return|>";
    if (text == "<|end|>")
      end = id;
    else
      add(spec.eog, id);
  }
  for (auto& token : spec.added) token.special |= spec.types[token.id] == TokenType::kControl;
  // Where "<|return|>" ends the turn, "<|end|>" only ends one of its messages.
  if (!has_return) add(spec.eog, end);
}

}  // namespace monograph
