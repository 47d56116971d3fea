#include "model/tensor_table.h"

#include <set>

#include "monograph/error.h"

namespace monograph {
namespace {

struct Names {
  std::string_view gguf, hf;
};

// In the order of LayerTensor.
constexpr Names kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
};
constexpr int kLayerTensors = static_cast<int>(std::size(kLayerNames));
static_assert(kLayerTensors == static_cast<int>(LayerTensor::kDown) + 1);

constexpr Names kModelNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

std::string_view pick(const Names& names, TensorNaming naming) {
  return naming == TensorNaming::kGguf ? names.gguf : names.hf;
}

void check_dtype(const TensorEntry& entry, bool matrix, const std::string& path) {
  const bool fits = entry.dtype != DType::kI32 && (matrix || !is_quantised(entry.dtype));
  if (fits) return;
  throw Error(ErrorCode::kUnreadableFile, path + ": " + entry.name + ": expected " +
                                              (matrix ? "a floating-point or quantised type" : "F32, F16 or BF16") +
                                              ", file has " + std::string(to_string(entry.dtype)));
}

void check_tensor(const TensorStore& store, const std::string& name, const std::vector<std::int64_t>& shape,
                  bool matrix) {
  const TensorEntry* entry = store.find(name);
  if (entry == nullptr)
    throw Error(ErrorCode::kUnreadableFile, name + ": expected " + shape_text(shape) + ", missing from the file");
  const std::string& path = store.file_of(*entry).path();
  if (entry->shape != shape)
    throw Error(ErrorCode::kUnreadableFile,
                path + ": " + name + ": expected " + shape_text(shape) + ", file has " + shape_text(entry->shape));
  check_dtype(*entry, matrix, path);
}

}  // namespace

std::string tensor_name(TensorNaming naming, ModelTensor which) {
  return std::string(pick(kModelNames[static_cast<int>(which)], naming));
}

std::string tensor_name(TensorNaming naming, LayerTensor which, int layer) {
  const std::string prefix = naming == TensorNaming::kGguf ? "blk." : "model.layers.";
  return prefix + std::to_string(layer) + "." + std::string(pick(kLayerNames[static_cast<int>(which)], naming));
}

std::vector<std::int64_t> expected_shape(ModelTensor which, const ModelConfig& config) {
  if (which == ModelTensor::kFinalNorm) return {config.model_dim};
  return {config.vocab_size, config.model_dim};
}

std::vector<std::int64_t> expected_shape(LayerTensor which, const ModelConfig& config) {
  const std::int64_t model_dim = config.model_dim, ffn_dim = config.ffn_dim;
  const std::int64_t q_dim = std::int64_t{config.n_heads} * config.head_dim;
  const std::int64_t kv_dim = std::int64_t{config.n_kv_heads} * config.head_dim;
  switch (which) {
    case LayerTensor::kAttnNorm:
    case LayerTensor::kFfnNorm:
      return {model_dim};
    case LayerTensor::kQ:
      return {q_dim, model_dim};
    case LayerTensor::kK:
    case LayerTensor::kV:
      return {kv_dim, model_dim};
    case LayerTensor::kQBias:
      return {q_dim};
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return {kv_dim};
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return {config.head_dim};
    case LayerTensor::kAttnOut:
      return {model_dim, q_dim};
    case LayerTensor::kGate:
    case LayerTensor::kUp:
      return {ffn_dim, model_dim};
    case LayerTensor::kDown:
      return {model_dim, ffn_dim};
  }
  return {};
}

bool is_expected(ModelTensor which, const ModelConfig& config) {
  return which != ModelTensor::kHead || !config.tied_head;
}

bool is_expected(LayerTensor which, const ModelConfig& config) {
  switch (which) {
    case LayerTensor::kQBias:
    case LayerTensor::kKBias:
    case LayerTensor::kVBias:
      return config.qkv_bias;
    case LayerTensor::kQNorm:
    case LayerTensor::kKNorm:
      return config.qk_norm;
    default:
      return true;
  }
}

bool is_matrix(LayerTensor which) {
  switch (which) {
    case LayerTensor::kQ:
    case LayerTensor::kK:
    case LayerTensor::kV:
    case LayerTensor::kAttnOut:
    case LayerTensor::kGate:
    case LayerTensor::kUp:
    case LayerTensor::kDown:
      return true;
    default:
      return false;
  }
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, TensorNaming naming) {
  std::vector<ExpectedTensor> all;
  for (const auto which : {ModelTensor::kEmbedding, ModelTensor::kFinalNorm, ModelTensor::kHead})
    if (is_expected(which, config))
      all.push_back({tensor_name(naming, which), expected_shape(which, config), which != ModelTensor::kFinalNorm});
  for (int layer = 0; layer < config.n_layers; ++layer)
    for (int i = 0; i < kLayerTensors; ++i) {
      const auto which = static_cast<LayerTensor>(i);
      if (is_expected(which, config))
        all.push_back({tensor_name(naming, which, layer), expected_shape(which, config), is_matrix(which)});
    }
  return all;
}

void check_tensors(const TensorStore& store, const ModelConfig& config, TensorNaming naming,
                   const std::function<bool(std::string_view)>& ignored) {
  std::set<std::string, std::less<>> known;
  for (const ExpectedTensor& expected : expected_tensors(config, naming)) {
    check_tensor(store, expected.name, expected.shape, expected.matrix);
    known.insert(expected.name);
  }
  for (const TensorEntry& entry : store.entries())
    if (!known.contains(entry.name) && !ignored(entry.name))
      throw Error(ErrorCode::kUnreadableFile, store.file_of(entry).path() + ": unexpected tensor " +
                                                  printable(entry.name) + ", which no such model has");
}

}  // namespace monograph
