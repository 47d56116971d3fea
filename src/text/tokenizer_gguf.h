// A tokenizer as a GGUF file's metadata describes it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace monograph {

/// `keys`: the tokenizer.ggml.* values with that prefix taken off ("model", "pre", "bos_token_id", "add_bos_token",
/// ...). `types` may be empty (all normal), `scores` and `merges` ("a b") where the model has none. Throws
/// Error(kUnsupported) for a model or pre-tokenizer that is not one of ours, kUnreadableFile naming the key for values
/// of the wrong kind or out of range. A missing `pre` is refused: it decides how text is split.
TokenizerSpec spec_from_gguf(const nlohmann::json& keys, std::vector<std::string> tokens, std::vector<float> scores,
                             const std::vector<int>& types, const std::vector<std::string>& merges);

}  // namespace monograph
