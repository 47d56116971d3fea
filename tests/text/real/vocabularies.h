// Published vocabularies, fetched by tools/fetch_test_data.py and tools/fetch_model.py.
#pragma once
#include <filesystem>
#include <stdexcept>
#include <string>

#include "model/config_gguf.h"
#include "model/file_reader.h"
#include "model/gguf.h"
#include "text/tokenizer_gguf.h"

namespace monograph {

/// The path of a vocabulary; a test without it fails, with the line that says how to get it.
inline std::string vocabulary_path(const std::string& name) {
  const std::filesystem::path root = MONOGRAPH_SOURCE_DIR;
  const bool is_model = name == "smollm2";
  const auto path = is_model ? root / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
                             : root / ".cache/test-data/vocabs" / ("ggml-vocab-" + name + ".gguf");
  if (!std::filesystem::exists(path))
    throw std::runtime_error(path.string() + " is missing: run " +
                             (is_model ? "tools/fetch_model.py" : "tools/fetch_test_data.py"));
  return path.string();
}

inline TokenizerSpec vocabulary_spec(const std::string& name) {
  const std::string path = vocabulary_path(name);
  const auto file = open_file(path);
  GgufHeader header = read_gguf_header(*file);
  TokenizerFiles files = tokenizer_from_gguf(header, 0, path);
  return spec_from_gguf(files.gguf, std::move(files.gguf_tokens), std::move(files.gguf_scores), files.gguf_token_types,
                        files.gguf_merges);
}

}  // namespace monograph
