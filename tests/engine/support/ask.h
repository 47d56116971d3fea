// The engines that tests ask: a tiny real model, and the oracle beside it.
#pragma once
#include "tests/engine/support/answers.h"

namespace monograph {

inline EngineConfig tiny() {
  EngineConfig config;
  config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/tests/golden/models/llama-gqa";
  config.threads = 1;
  config.max_seqs = 16;
  config.max_seq_len = 256;
  config.block_size = 16;
  config.chunk_size = 32;
  config.audit = true;
  return config;
}

/// The oracle: eager, no prefix cache, one chunk.
inline EngineConfig plain() {
  EngineConfig config = tiny();
  config.enable_cuda_graph = false;
  config.enable_prefix_cache = false;
  config.chunk_size = 256;
  return config;
}

}  // namespace monograph
