#include "model/config_gguf.h"

#include <cmath>

#include "model/config_limits.h"
#include "model/fields.h"

namespace monograph {
namespace {

// A tokenizer's small arrays are handed on as JSON, which takes some 16 times their bytes: only small ones may be.
constexpr std::uint64_t kMaxJsonArray = 1 << 20;

ModelFamily family_of(const Fields& keys, const std::string& arch) {
  if (arch == "llama") return ModelFamily::kLlama;
  if (arch == "qwen2") return ModelFamily::kQwen2;
  if (arch == "qwen3") return ModelFamily::kQwen3;
  keys.fail_unsupported("general.architecture", "is not supported; supported are llama, qwen2 and qwen3");
}

// Features of an architecture's other members: silence would run another model than the file describes.
void refuse_features(const Fields& keys, const std::string& arch, int max_position) {
  if (keys.maybe_integer(arch + ".expert_count", 0, limits::kMaxDim).value_or(0) > 0)
    keys.fail_unsupported(arch + ".expert_count", "experts: mixture-of-experts models are not supported");
  const std::string window = arch + ".attention.sliding_window";
  const int width = keys.maybe_integer(window, 0, limits::kMaxPosition).value_or(0);
  if (width > 0 && width < max_position) keys.fail_unsupported(window, "tokens: sliding windows are not supported");
  if (!keys.boolean_or(arch + ".attention.causal", true))
    keys.fail_unsupported(arch + ".attention.causal", "is not supported: only causal attention is");
  for (const char* scale : {".logit_scale", ".residual_scale", ".embedding_scale", ".attention.scale",
                            ".rope.scaling.alpha", ".rope.scaling.yarn_log_multiplier"}) {
    const float value = keys.maybe_real(arch + scale, -FLT_MAX, FLT_MAX).value_or(0.0f);
    if (value != 0.0f && value != 1.0f) keys.fail_unsupported(arch + scale, "is not supported");
  }
}

void read_heads(const Fields& keys, const std::string& arch, ModelConfig& config) {
  config.n_heads = keys.integer(arch + ".attention.head_count", 1, limits::kMaxHeads);
  const std::string kv_key = arch + ".attention.head_count_kv";
  config.n_kv_heads = keys.maybe_integer(kv_key, 1, limits::kMaxHeads).value_or(config.n_heads);
  if (config.n_heads % config.n_kv_heads != 0)
    keys.fail(kv_key, "a divisor of the " + std::to_string(config.n_heads) + " heads");
  const std::string length = arch + ".attention.key_length";
  if (const auto head_dim = keys.maybe_integer(length, 2, limits::kMaxHeadDim))
    config.head_dim = *head_dim;
  else if (config.model_dim % config.n_heads == 0)
    config.head_dim = config.model_dim / config.n_heads;
  else
    keys.fail(arch + ".attention.head_count", "a divisor of the width " + std::to_string(config.model_dim));
  if (config.head_dim % 2 != 0 || config.head_dim > limits::kMaxHeadDim)
    keys.fail(
        keys.has(length) ? length : arch + ".attention.head_count",
        "an even head width up to " + std::to_string(limits::kMaxHeadDim) + ", not " + std::to_string(config.head_dim));
  for (const std::string& same : {arch + ".attention.value_length", arch + ".rope.dimension_count"})
    if (keys.maybe_integer(same, 1, limits::kMaxDim).value_or(config.head_dim) != config.head_dim)
      keys.fail_unsupported(same, "is not supported: it must equal the head width " + std::to_string(config.head_dim));
}

void read_yarn(const Fields& keys, const std::string& scaling, RopeConfig& rope) {
  rope.kind = RopeConfig::Kind::kYarn;
  rope.beta_fast = keys.maybe_real(scaling + "yarn_beta_fast", 1e-3, 1e6).value_or(32.0f);
  rope.beta_slow = keys.maybe_real(scaling + "yarn_beta_slow", 1e-3, 1e6).value_or(1.0f);
  if (keys.maybe_real(scaling + "yarn_ext_factor", -FLT_MAX, FLT_MAX).value_or(1.0f) != 1.0f)
    keys.fail_unsupported(scaling + "yarn_ext_factor", "is not supported");
  // The key multiplies the default factor instead of replacing it.
  if (const auto extra = keys.maybe_real(scaling + "attn_factor", 1e-3, 1e3); extra && *extra != 1.0f)
    rope.attention_factor = *extra * (rope.factor <= 1.0f ? 1.0f : 0.1f * std::log(rope.factor) + 1.0f);
}

RopeConfig read_rope(const Fields& keys, const std::string& arch, const ModelConfig& config) {
  RopeConfig rope;
  rope.rotary_dim = config.head_dim;
  rope.theta = keys.maybe_real(arch + ".rope.freq_base", limits::kMinTheta, limits::kMaxTheta).value_or(10000.0f);
  const std::string scaling = arch + ".rope.scaling.";
  const std::string factor = keys.has(scaling + "factor") ? scaling + "factor" : arch + ".rope.scale_linear";
  const std::string type = keys.maybe_string(scaling + "type").value_or("linear");
  if (type == "none") return rope;
  if (type != "linear" && type != "yarn")
    keys.fail_unsupported(scaling + "type", "is not supported; supported are none, linear and yarn");
  // 0 stands for "not scaled".
  const float value = keys.maybe_real(factor, 0.0, limits::kMaxFactor).value_or(0.0f);
  if (value == 0.0f) return rope;
  rope.factor = keys.real(factor, limits::kMinFactor, limits::kMaxFactor);
  rope.original_max_position =
      keys.maybe_integer(scaling + "original_context_length", 1, limits::kMaxPosition).value_or(config.max_position);
  if (type == "yarn")
    read_yarn(keys, scaling, rope);
  else if (rope.factor != 1.0f)
    rope.kind = RopeConfig::Kind::kLinear;
  return rope;
}

int embedding_rows(const GgufHeader& header, const std::string& path) {
  for (const TensorEntry& entry : header.tensors) {
    if (entry.name != "token_embd.weight") continue;
    if (entry.shape.size() == 2 && entry.shape[0] <= limits::kMaxVocab) return static_cast<int>(entry.shape[0]);
    throw Error(ErrorCode::kUnreadableFile, path + ": token_embd.weight: expected [vocabulary, width] with at most " +
                                                std::to_string(limits::kMaxVocab) + " rows, file has " +
                                                shape_text(entry.shape));
  }
  throw Error(ErrorCode::kUnreadableFile, path + ": token_embd.weight: missing from the file");
}

const GgufArray* find_array(const GgufHeader& header, const std::string& key, GgufType type, const std::string& path) {
  const auto at = header.metadata.find(key);
  if (at == header.metadata.end()) return nullptr;
  const auto* array = std::get_if<GgufArray>(&at->second.value);
  if (array != nullptr && array->type == type) return array;
  throw Error(ErrorCode::kUnreadableFile, path + ": " + key + ": expected an array of " + std::string(to_string(type)) +
                                              ", found " + value_text(at->second));
}

std::vector<std::string> take_strings(GgufHeader& header, const std::string& key, const std::string& path) {
  if (find_array(header, key, GgufType::kString, path) == nullptr) return {};
  return std::move(std::get<GgufArray>(header.metadata.find(key)->second.value).strings);
}

template <typename T>
std::vector<T> take_numbers(const GgufHeader& header, const std::string& key, GgufType type, std::size_t n_tokens,
                            const std::string& path) {
  const GgufArray* array = find_array(header, key, type, path);
  if (array == nullptr) return {};
  if (array->count != n_tokens)
    throw Error(ErrorCode::kUnreadableFile, path + ": " + key + ": expected " + std::to_string(n_tokens) +
                                                " values, one per token, found " + std::to_string(array->count));
  std::vector<T> numbers(array->count);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(number_at(*array, i));
  return numbers;
}

void check_merges(const std::vector<std::string>& merges, const std::string& path) {
  for (std::size_t i = 0; i < merges.size(); ++i) {
    // The first piece may itself begin with a space in vocabularies that are not byte-level.
    const auto gap = merges[i].find(' ', 1);
    if (merges[i].empty() || gap == std::string::npos || gap + 1 == merges[i].size())
      throw Error(ErrorCode::kUnreadableFile, path + ": tokenizer.ggml.merges: entry " + std::to_string(i) +
                                                  ": expected two pieces with a space between, found \"" +
                                                  printable(merges[i]) + '"');
  }
}

void check_token_types(const std::vector<int>& types, const std::string& path) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (types[i] < 0 || types[i] > 6)
      throw Error(ErrorCode::kUnreadableFile, path + ": tokenizer.ggml.token_type: entry " + std::to_string(i) +
                                                  ": expected 0 to 6, found " + std::to_string(types[i]));
}

bool is_bytes(GgufType type) { return type == GgufType::kU8 || type == GgufType::kI8; }

nlohmann::json bytes_of(const GgufArray& array) {
  std::vector<std::uint8_t> bytes;
  for (const std::byte byte : array.packed) bytes.push_back(std::to_integer<std::uint8_t>(byte));
  return nlohmann::json::binary(std::move(bytes));
}

// Every other tokenizer.* key, without the prefix.
nlohmann::json small_keys(const GgufHeader& header, const std::string& path) {
  auto json = nlohmann::json::object();
  for (const auto& [key, value] : header.metadata) {
    if (!key.starts_with("tokenizer.") || key == "tokenizer.chat_template") continue;
    const std::string name = key.substr(key.starts_with("tokenizer.ggml.") ? 15 : 10);
    if (name == "tokens" || name == "scores" || name == "token_type" || name == "merges") continue;
    const auto* array = std::get_if<GgufArray>(&value.value);
    if (name == "precompiled_charsmap" && array != nullptr && is_bytes(array->type)) {
      json[name] = bytes_of(*array);
      continue;
    }
    if (array != nullptr && array->count > kMaxJsonArray)
      throw Error(ErrorCode::kUnreadableFile, path + ": " + printable(key) + ": expected at most " +
                                                  std::to_string(kMaxJsonArray) + " values, found " +
                                                  std::to_string(array->count));
    json[name] = to_json(value);
  }
  return json;
}

}  // namespace

nlohmann::json scalars_of(const GgufHeader& header) {
  auto json = nlohmann::json::object();
  for (const auto& [key, value] : header.metadata)
    json[key] = std::holds_alternative<GgufArray>(value.value) ? nlohmann::json::array() : to_json(value);
  return json;
}

ModelConfig config_from_gguf(const GgufHeader& header, const std::string& path) {
  const nlohmann::json scalars = scalars_of(header);
  const Fields keys(scalars, path + ": ");
  const std::string arch = keys.string("general.architecture");
  ModelConfig config;
  config.family = family_of(keys, arch);
  config.name = printable(keys.maybe_string("general.name").value_or(""));
  config.n_layers = keys.integer(arch + ".block_count", 1, limits::kMaxLayers);
  config.model_dim = keys.integer(arch + ".embedding_length", 1, limits::kMaxDim);
  config.ffn_dim = keys.integer(arch + ".feed_forward_length", 1, limits::kMaxDim);
  config.max_position = keys.integer(arch + ".context_length", 1, limits::kMaxPosition);
  config.norm_eps = keys.real(arch + ".attention.layer_norm_rms_epsilon", limits::kMinEps, limits::kMaxEps);
  refuse_features(keys, arch, config.max_position);
  read_heads(keys, arch, config);
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  config.rope = read_rope(keys, arch, config);
  config.qkv_bias = config.family == ModelFamily::kQwen2;
  config.qk_norm = config.family == ModelFamily::kQwen3;
  config.vocab_size = embedding_rows(header, path);
  const std::string vocab_key = arch + ".vocab_size";
  if (keys.maybe_integer(vocab_key, 1, limits::kMaxVocab).value_or(config.vocab_size) != config.vocab_size)
    keys.fail(vocab_key, std::to_string(config.vocab_size) + ", the rows of token_embd.weight");
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    for (const int id : keys.integers(key, 0, config.vocab_size - 1)) config.eos_token_ids.push_back(id);
  config.bos_token_id = keys.maybe_integer("tokenizer.ggml.bos_token_id", 0, config.vocab_size - 1);
  config.pad_token_id = keys.maybe_integer("tokenizer.ggml.padding_token_id", 0, config.vocab_size - 1);
  return config;
}

TokenizerFiles tokenizer_from_gguf(GgufHeader& header, int vocab_size, const std::string& path) {
  const std::string prefix = "tokenizer.ggml.";
  TokenizerFiles files;
  files.gguf = small_keys(header, path);
  files.gguf_tokens = take_strings(header, prefix + "tokens", path);
  const std::size_t n_tokens = files.gguf_tokens.size();
  const std::string model = Fields(files.gguf, path + ": " + prefix).maybe_string("model").value_or("none");
  const bool has_vocabulary = model != "none" && model != "no_vocab";
  if ((has_vocabulary && n_tokens == 0) || (n_tokens > 0 && vocab_size > 0 && n_tokens != std::size_t(vocab_size)))
    throw Error(ErrorCode::kUnreadableFile,
                path + ": " + prefix + "tokens: expected " +
                    (vocab_size > 0 ? std::to_string(vocab_size) + " tokens, one per row of token_embd.weight"
                                    : std::string("at least one token")) +
                    ", found " + std::to_string(n_tokens));
  files.gguf_scores = take_numbers<float>(header, prefix + "scores", GgufType::kF32, n_tokens, path);
  files.gguf_token_types = take_numbers<int>(header, prefix + "token_type", GgufType::kI32, n_tokens, path);
  check_token_types(files.gguf_token_types, path);
  files.gguf_merges = take_strings(header, prefix + "merges", path);
  check_merges(files.gguf_merges, path);
  const auto at = header.metadata.find("tokenizer.chat_template");
  if (at == header.metadata.end()) return files;
  if (const auto* text = std::get_if<std::string>(&at->second.value))
    files.chat_template = *text;
  else
    throw Error(ErrorCode::kUnreadableFile,
                path + ": tokenizer.chat_template: expected a string, found " + value_text(at->second));
  return files;
}

GenerationDefaults generation_from_gguf(const GgufHeader& header, const std::string& path) {
  const nlohmann::json scalars = scalars_of(header);
  const Fields keys(scalars, path + ": ");
  GenerationDefaults defaults;
  defaults.temperature = keys.maybe_real("general.sampling.temp", 0.0, 1e6);
  defaults.top_k = keys.maybe_integer("general.sampling.top_k", -1, limits::kMaxVocab);
  defaults.top_p = keys.maybe_real("general.sampling.top_p", 0.0, 1.0);
  defaults.min_p = keys.maybe_real("general.sampling.min_p", 0.0, 1.0);
  defaults.repetition_penalty = keys.maybe_real("general.sampling.penalty_repeat", 1e-6, 1e6);
  return defaults;
}

}  // namespace monograph
