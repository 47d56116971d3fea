// Where the default model is, and what transformers answers for it.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/golden/golden.h"

namespace monograph::e2e {

inline constexpr const char* kDefaultModel = "SmolLM2-135M-Instruct.Q4_1";

inline std::string default_model_path() {
  const char* given = std::getenv("MONOGRAPH_TEST_MODEL");
  const std::string path = given ? given : std::string(MONOGRAPH_SOURCE_DIR "/models/") + kDefaultModel + ".gguf";
  if (!std::filesystem::exists(path)) throw std::runtime_error(path + " is missing: `make model` fetches it");
  return path;
}

inline const golden::Golden& default_model_golden() {
  static const golden::Golden golden =
      golden::read(std::string(MONOGRAPH_SOURCE_DIR "/tests/golden/logits/") + kDefaultModel + ".golden");
  return golden;
}

}  // namespace monograph::e2e
