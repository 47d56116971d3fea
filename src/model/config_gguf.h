// GGUF metadata → ModelConfig, TokenizerFiles and GenerationDefaults, checked.
#pragma once
#include <string>

#include "model/config.h"
#include "model/gguf.h"
#include "model/model_files.h"

namespace monograph {

/// Scalar keys as JSON; arrays appear as empty lists.
nlohmann::json scalars_of(const GgufHeader& header);

/// Everything but rope.freq_factors, which lie in a tensor. `path` begins the messages. The vocabulary's size is the
/// embedding's number of rows. Throws Error(kUnsupported) naming architectures and features that are not built here.
ModelConfig config_from_gguf(const GgufHeader& header, const std::string& path);

/// Moves the vocabulary out of the header. Also reads vocabulary-only files, for which `vocab_size` is 0.
TokenizerFiles tokenizer_from_gguf(GgufHeader& header, int vocab_size, const std::string& path);

GenerationDefaults generation_from_gguf(const GgufHeader& header, const std::string& path);

}  // namespace monograph
