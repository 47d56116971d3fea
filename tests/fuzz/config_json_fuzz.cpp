// Any bytes as config.json and generation_config.json: a checked configuration, or an Error.
#include <cstdlib>

#include "model/config_json.h"
#include "model/json_file.h"
#include "model/tensor_table.h"
#include "monograph/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace monograph;
  try {
    const auto json = parse_file_json({reinterpret_cast<const char*>(data), size}, "config.json");
    try {
      generation_from_json(json, "generation_config.json");
    } catch (const Error&) {
    }
    const ModelConfig config = config_from_json(json, "config.json");
    // What was accepted is safe to compute with.
    const bool sane = config.n_heads % config.n_kv_heads == 0 && config.head_dim % 2 == 0 && config.rope.factor > 0 &&
                      checked_size(expected_shape(LayerTensor::kQ, config)) &&
                      checked_size(expected_shape(ModelTensor::kEmbedding, config));
    if (!sane) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
