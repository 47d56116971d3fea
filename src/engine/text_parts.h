// The text side of a model: tokenizer, chat template, the tokens that end a generation, sampling defaults.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/chat_prompt.h"
#include "model/model_files.h"
#include "monograph/sampling.h"
#include "text/tokenizer.h"

namespace monograph {

struct TextParts {
  std::shared_ptr<const Tokenizer> tokenizer;  ///< Null if the model has none.
  std::shared_ptr<const ChatPrompt> chat;      ///< Null without a template.
  std::vector<TokenId> end_of_generation;      ///< Sorted; from config, generation_config and tokenizer (ST05).
  SamplingParams defaults;                     ///< What generation_config changed is in.
  std::string defaults_json = "{}";            ///< Those changes, for users.
};

/// `chat_template` replaces the model's own if not empty. Throws as Tokenizer and ChatTemplate do; a template of the
/// model's own that cannot be used is only a warning, since plain prompts still work.
TextParts load_text_parts(const ModelFiles& files, const std::string& chat_template, const Log& log);

}  // namespace monograph
