// What a Hugging Face folder says beside its weights.
#pragma once
#include <string>

#include "model/config.h"
#include "model/model_files.h"

namespace monograph {

struct HfFolder {
  ModelConfig config;
  TokenizerFiles tokenizer;
  GenerationDefaults generation;
  bool is_float32 = false;  ///< dtype or torch_dtype says float32.
};

/// Reads config.json, generation_config.json, tokenizer.json, tokenizer_config.json and chat_template.jinja; only the
/// first must be there. Throws as open_model() does.
HfFolder read_hf_folder(const std::string& folder);

}  // namespace monograph
