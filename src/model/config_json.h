// config.json and generation_config.json → ModelConfig and GenerationDefaults, checked.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "model/config.h"
#include "model/model_files.h"

namespace monograph {

/// Reads both spellings: rope_theta beside rope_scaling (files to 2025) and rope_parameters (transformers 5).
/// `path` begins the messages. Throws Error(kUnsupported) naming architectures, RoPE types and features that are not
/// built here, Error(kUnreadableFile) naming a key that is missing or out of range.
ModelConfig config_from_json(const nlohmann::json& json, const std::string& path);

GenerationDefaults generation_from_json(const nlohmann::json& json, const std::string& path);

}  // namespace monograph
