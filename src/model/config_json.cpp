#include "model/config_json.h"

#include <cmath>

#include "model/config_limits.h"
#include "model/fields.h"
#include "model/file_reader.h"

namespace monograph {
namespace {

struct Family {
  const char* architecture;
  const char* model_type;
  ModelFamily family;
};
constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", ModelFamily::kLlama},
    {"Qwen2ForCausalLM", "qwen2", ModelFamily::kQwen2},
    {"Qwen3ForCausalLM", "qwen3", ModelFamily::kQwen3},
};

const Family& family_of(const Fields& fields, const std::string& path) {
  const auto names = fields.strings("architectures");
  if (names.empty()) fields.fail("architectures", "a list with one name");
  for (const Family& family : kFamilies) {
    if (names[0] != family.architecture) continue;
    if (fields.maybe_string("model_type").value_or(family.model_type) != family.model_type)
      fields.fail("model_type", std::string(family.model_type) + ", as " + family.architecture + " has");
    return family;
  }
  throw Error(ErrorCode::kUnsupported, path + ": architectures: " + printable(names[0]) +
                                           " is not supported; supported are LlamaForCausalLM, Qwen2ForCausalLM and "
                                           "Qwen3ForCausalLM");
}

// Silence would run another model than the file describes.
void refuse_features(const Fields& fields) {
  for (const char* experts : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (fields.maybe_integer(experts, 0, limits::kMaxDim).value_or(0) > 0)
      fields.fail_unsupported(experts, "experts: mixture-of-experts models are not supported");
  for (const char* flag : {"attention_bias", "mlp_bias", "use_sliding_window"})
    if (fields.boolean_or(flag, false)) fields.fail_unsupported(flag, "is not supported");
  if (fields.maybe_string("hidden_act").value_or("silu") != "silu")
    fields.fail_unsupported("hidden_act", "is not supported; supported is silu");
  if (fields.has("quantization_config"))
    fields.fail_unsupported("quantization_config", "is not supported: give unquantised weights or a GGUF file");
  if (fields.maybe_real("partial_rotary_factor", 0.0, 1.0).value_or(1.0f) != 1.0f)
    fields.fail_unsupported("partial_rotary_factor", "is not supported: every dimension of a head is rotated");
  for (const std::string& type : fields.strings("layer_types"))
    if (type != "full_attention")
      fields.fail_unsupported("layer_types", "with " + printable(type) + " is not supported");
  for (const char* name : {"torch_dtype", "dtype"}) fields.maybe_string(name);  // The tensors say what they are.
}

void read_heads(const Fields& fields, ModelConfig& config) {
  config.n_heads = fields.integer("num_attention_heads", 1, limits::kMaxHeads);
  config.n_kv_heads = fields.maybe_integer("num_key_value_heads", 1, limits::kMaxHeads).value_or(config.n_heads);
  if (config.n_heads % config.n_kv_heads != 0)
    fields.fail("num_key_value_heads", "a divisor of the " + std::to_string(config.n_heads) + " attention heads");
  if (const auto head_dim = fields.maybe_integer("head_dim", 2, limits::kMaxHeadDim)) {
    config.head_dim = *head_dim;
  } else if (config.family == ModelFamily::kQwen3) {
    config.head_dim = 128;  // Qwen3's own default, whatever the width.
  } else {
    if (config.model_dim % config.n_heads != 0)
      fields.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(config.model_dim));
    config.head_dim = config.model_dim / config.n_heads;
  }
  if (config.head_dim % 2 != 0 || config.head_dim > limits::kMaxHeadDim)
    fields.fail(
        fields.has("head_dim") ? "head_dim" : "num_attention_heads",
        "an even head width up to " + std::to_string(limits::kMaxHeadDim) + ", not " + std::to_string(config.head_dim));
}

void read_llama3(const Fields& rope, RopeConfig& out) {
  out.kind = RopeConfig::Kind::kLlama3;
  out.factor = rope.real("factor", limits::kMinFactor, limits::kMaxFactor);
  out.low_freq_factor = rope.real("low_freq_factor", limits::kMinFactor, limits::kMaxFactor);
  out.high_freq_factor = rope.real("high_freq_factor", limits::kMinFactor, limits::kMaxFactor);
  if (out.high_freq_factor <= out.low_freq_factor)
    rope.fail("high_freq_factor", "more than low_freq_factor " + std::to_string(out.low_freq_factor));
}

void read_yarn(const Fields& rope, int max_position, RopeConfig& out) {
  out.kind = RopeConfig::Kind::kYarn;
  const float ratio = static_cast<float>(max_position) / static_cast<float>(out.original_max_position);
  out.factor = rope.maybe_real("factor", limits::kMinFactor, limits::kMaxFactor).value_or(ratio);
  // 0 counts as absent, as it does in transformers.
  const auto or_default = [&](const char* key, float fallback) {
    const float value = rope.maybe_real(key, 0.0, limits::kMaxFactor).value_or(0.0f);
    return value == 0.0f ? fallback : value;
  };
  out.beta_fast = or_default("beta_fast", 32.0f);
  out.beta_slow = or_default("beta_slow", 1.0f);
  out.attention_factor = rope.maybe_real("attention_factor", 0.0, limits::kMaxFactor);
  out.mscale = rope.maybe_real("mscale", 0.0, limits::kMaxFactor);
  out.mscale_all_dim = rope.maybe_real("mscale_all_dim", 0.0, limits::kMaxFactor);
  if (!rope.boolean_or("truncate", true)) rope.fail_unsupported("truncate", "is not supported");
}

/// Sizes of the three sections of a head's frequencies, which follow the three position ids in turn.
void read_mrope(const Fields& rope, RopeConfig& out) {
  if (rope.boolean_or("mrope_interleaved", false)) rope.fail_unsupported("mrope_interleaved", "is not supported");
  out.mrope_sections = rope.integers("mrope_section", 1, limits::kMaxHeadDim);
  int total = 0;
  for (int section : out.mrope_sections) total += section;
  if (out.mrope_sections.size() != 3 || total != out.rotary_dim / 2)
    rope.fail("mrope_section",
              "three sizes that add up to " + std::to_string(out.rotary_dim / 2) + ", half of the head");
}

// `rope` is rope_parameters, rope_scaling or nothing at all.
void read_rope_type(const Fields& fields, const Fields& rope, int max_position, RopeConfig& out) {
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.maybe_string(key).value_or("default");
  if (type == "mrope" || rope.has("mrope_section")) read_mrope(rope, out);
  if (type == "default" || type == "mrope") return;
  const Fields& outer = fields.has("original_max_position_embeddings") ? fields : rope;
  out.original_max_position =
      outer.maybe_integer("original_max_position_embeddings", 1, limits::kMaxPosition).value_or(max_position);
  if (type == "llama3") {
    read_llama3(rope, out);
  } else if (type == "yarn") {
    read_yarn(rope, max_position, out);
  } else if (type == "linear") {
    out.kind = RopeConfig::Kind::kLinear;
    out.factor = rope.real("factor", limits::kMinFactor, limits::kMaxFactor);
  } else {
    rope.fail_unsupported(key, "is not supported; supported are default, linear, llama3, yarn and mrope");
  }
}

RopeConfig read_rope(const Fields& fields, const ModelConfig& config) {
  RopeConfig rope;
  rope.rotary_dim = config.head_dim;
  const auto theta_of = [](const Fields& from) {
    return from.maybe_real("rope_theta", limits::kMinTheta, limits::kMaxTheta);
  };
  rope.theta = theta_of(fields).value_or(10000.0f);
  // The old spelling wins where a file has both, as in transformers.
  const char* key = fields.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const auto parameters = fields.maybe_object(key);
  if (!parameters) return rope;
  for (const char* per_layer : {"full_attention", "sliding_attention"})
    if (parameters->has(per_layer)) parameters->fail_unsupported(per_layer, "per layer type is not supported");
  rope.theta = theta_of(*parameters).value_or(rope.theta);
  if (parameters->maybe_real("partial_rotary_factor", 0.0, 1.0).value_or(1.0f) != 1.0f)
    parameters->fail_unsupported("partial_rotary_factor", "is not supported: every dimension of a head is rotated");
  read_rope_type(fields, *parameters, config.max_position, rope);
  return rope;
}

}  // namespace

ModelConfig config_from_json(const nlohmann::json& json, const std::string& path) {
  const Fields fields(json, path + ": ");
  ModelConfig config;
  config.family = family_of(fields, path).family;
  refuse_features(fields);
  config.model_dim = fields.integer("hidden_size", 1, limits::kMaxDim);
  config.ffn_dim = fields.integer("intermediate_size", 1, limits::kMaxDim);
  config.n_layers = fields.integer("num_hidden_layers", 1, limits::kMaxLayers);
  config.vocab_size = fields.integer("vocab_size", 1, limits::kMaxVocab);
  config.max_position = fields.integer("max_position_embeddings", 1, limits::kMaxPosition);
  config.norm_eps = fields.real("rms_norm_eps", limits::kMinEps, limits::kMaxEps);
  read_heads(fields, config);
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.rope = read_rope(fields, config);
  config.position_factor = static_cast<int>(config.rope.mrope_sections.size());
  config.tied_head = fields.boolean_or("tie_word_embeddings", false);
  config.qkv_bias = config.family == ModelFamily::kQwen2;
  config.qk_norm = config.family == ModelFamily::kQwen3;
  config.eos_token_ids = fields.integers("eos_token_id", 0, config.vocab_size - 1);
  config.bos_token_id = fields.maybe_integer("bos_token_id", 0, config.vocab_size - 1);
  // Some files say -1 for "no padding token".
  config.pad_token_id = fields.maybe_integer("pad_token_id", -1, config.vocab_size - 1);
  if (config.pad_token_id == -1) config.pad_token_id.reset();
  return config;
}

GenerationDefaults generation_from_json(const nlohmann::json& json, const std::string& path) {
  const Fields fields(json, path + ": ");
  GenerationDefaults defaults;
  defaults.temperature = fields.maybe_real("temperature", 0.0, 1e6);
  defaults.top_p = fields.maybe_real("top_p", 0.0, 1.0);
  defaults.min_p = fields.maybe_real("min_p", 0.0, 1.0);
  defaults.repetition_penalty = fields.maybe_real("repetition_penalty", 1e-6, 1e6);
  defaults.top_k = fields.maybe_integer("top_k", -1, limits::kMaxVocab);
  if (fields.has("do_sample")) defaults.do_sample = fields.boolean_or("do_sample", false);
  defaults.eos_token_ids = fields.integers("eos_token_id", 0, limits::kMaxVocab - 1);
  return defaults;
}

}  // namespace monograph
