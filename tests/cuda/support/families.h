// Tiny models of each family in shapes that the GPU's kernels take, and what both backends' bfloat16 may differ by.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/lane.h"

namespace monograph::testing {

struct Family {
  std::string name;
  ModelConfig config;
};

inline ModelConfig family_config(ModelFamily family, int heads, int kv_heads, int head_dim) {
  ModelConfig c = tiny_config();
  c.family = family;
  c.model_dim = 128;
  c.ffn_dim = 192;
  c.n_heads = heads;
  c.n_kv_heads = kv_heads;
  c.head_dim = c.rope.rotary_dim = head_dim;
  c.vocab_size = 320;
  c.attention_scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  c.qkv_bias = family == ModelFamily::kQwen2;
  c.qk_norm = family == ModelFamily::kQwen3;
  c.tied_head = false;
  return c;
}

inline std::vector<Family> families() {
  std::vector<Family> all = {{"llama_gqa", family_config(ModelFamily::kLlama, 4, 1, 64)},
                             {"llama_mha_96", family_config(ModelFamily::kLlama, 2, 2, 96)},
                             {"llama3_rope", family_config(ModelFamily::kLlama, 9, 3, 64)},
                             {"llama_yarn", family_config(ModelFamily::kLlama, 2, 1, 256)},
                             {"qwen2_bias", family_config(ModelFamily::kQwen2, 4, 2, 64)},
                             {"qwen3_qknorm", family_config(ModelFamily::kQwen3, 4, 2, 128)}};
  RopeConfig& llama3 = all[2].config.rope;
  llama3.kind = RopeConfig::Kind::kLlama3;
  llama3.factor = 8;
  llama3.original_max_position = 64;
  RopeConfig& yarn = all[3].config.rope;
  yarn.kind = RopeConfig::Kind::kYarn;
  yarn.factor = 4;
  yarn.original_max_position = 64;
  return all;
}

inline std::string family_name(const ::testing::TestParamInfo<Family>& info) { return info.param.name; }

/// A value that was rounded to bfloat16 (8 bits: at most 2^-9 of it) four times a layer and twice outside differs from
/// another backend's by independent roundings, whose standard deviation is at most this share of its size.
inline double rounding_noise(int n_layers) {
  return std::sqrt(2.0 * (4 * n_layers + 2)) * std::ldexp(1.0, -9) / std::sqrt(3.0);
}

/// Six standard deviations of the difference of two backends' logits: a logit is a sum of K products whose terms carry
/// independent noise, so its noise is that share of the logits' own spread.
inline double logit_bound(const std::vector<float>& logits, int n_layers) {
  double sum = 0;
  for (float z : logits) sum += static_cast<double>(z) * z;
  return 6 * rounding_noise(n_layers) * std::sqrt(sum / static_cast<double>(logits.size()));
}

inline int argmax(const std::vector<float>& logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// The best logit's lead over the second.
inline double lead(const std::vector<float>& logits) {
  float best = -INFINITY, second = -INFINITY;
  for (float z : logits) {
    if (z > best)
      second = std::exchange(best, z);
    else
      second = std::max(second, z);
  }
  return static_cast<double>(best) - second;
}

inline LaneOptions on(const std::string& device, const ModelConfig& model) {
  LaneOptions options;
  options.model = model;
  options.device = device;
  options.activation_dtype = DType::kBF16;
  options.threads = 0;
  return options;
}

}  // namespace monograph::testing
