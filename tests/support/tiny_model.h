// A tiny random model in memory, for tests that need real forwards but no file.
#pragma once
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "model/model_files.h"

namespace monograph::testing {

inline ModelConfig tiny_config() {
  ModelConfig config;
  config.family = ModelFamily::kQwen3;
  config.name = "tiny";
  config.model_dim = 64;
  config.ffn_dim = 128;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 130;
  config.max_position = 2048;
  config.norm_eps = 1e-5f;
  config.tied_head = true;
  config.qkv_bias = true;
  config.qk_norm = true;
  config.attention_scale = 0.25f;
  config.rope.rotary_dim = 16;
  config.eos_token_ids = {2};
  return config;
}

/// Float32 tensors drawn from a fixed seed; a tensor's values depend only on the seed and its name.
class TinyFiles : public ModelFiles {
 public:
  explicit TinyFiles(ModelConfig config = tiny_config(), unsigned seed = 1) : config_(std::move(config)), seed_(seed) {}

  const ModelConfig& config() const override { return config_; }
  const TokenizerFiles& tokenizer() const override { return tokenizer_; }
  const GenerationDefaults& generation() const override { return generation_; }
  bool has(LayerTensor, int) const override { return true; }
  bool permute_qk() const override { return false; }
  void release(const HostTensor&) const override {}
  std::int64_t file_bytes() const override { return 1 << 20; }
  std::string summary() const override { return "tiny"; }

  /// A prompt with this token turns every activation of its rows into NaN.
  void poison(int token) { poison_ = token; }

  HostTensor tensor(ModelTensor which) const override {
    switch (which) {
      case ModelTensor::kEmbedding: {
        const HostTensor made = make("embedding", {config_.vocab_size, config_.model_dim}, 0.5f);
        if (poison_) std::fill_n(values_["embedding"].begin() + *poison_ * config_.model_dim, config_.model_dim, NAN);
        return made;
      }
      case ModelTensor::kFinalNorm:
        return make("final_norm", {config_.model_dim}, 0.2f, 1.0f);
      case ModelTensor::kHead:
        return make("head", {config_.vocab_size, config_.model_dim}, 0.5f);
    }
    return {};
  }

  HostTensor tensor(LayerTensor which, int layer) const override {
    const std::string name = std::to_string(layer) + "." + std::to_string(static_cast<int>(which));
    const std::int64_t e = config_.model_dim, f = config_.ffn_dim, d = config_.head_dim;
    const std::int64_t q = config_.n_heads * d, kv = config_.n_kv_heads * d;
    switch (which) {
      case LayerTensor::kAttnNorm:
      case LayerTensor::kFfnNorm:
        return make(name, {e}, 0.2f, 1.0f);
      case LayerTensor::kQ:
        return make(name, {q, e}, 0.2f);
      case LayerTensor::kK:
      case LayerTensor::kV:
        return make(name, {kv, e}, 0.2f);
      case LayerTensor::kQBias:
        return make(name, {q}, 0.1f);
      case LayerTensor::kKBias:
      case LayerTensor::kVBias:
        return make(name, {kv}, 0.1f);
      case LayerTensor::kQNorm:
      case LayerTensor::kKNorm:
        return make(name, {d}, 0.2f, 1.0f);
      case LayerTensor::kAttnOut:
        return make(name, {e, q}, 0.2f);
      case LayerTensor::kGate:
      case LayerTensor::kUp:
        return make(name, {f, e}, 0.2f);
      case LayerTensor::kDown:
        return make(name, {e, f}, 0.2f);
    }
    return {};
  }

 private:
  HostTensor make(const std::string& name, std::vector<std::int64_t> shape, float spread, float mean = 0.0f) const {
    auto [at, fresh] = values_.try_emplace(name);
    if (fresh) {
      std::int64_t n = 1;
      for (auto extent : shape) n *= extent;
      std::mt19937 random(seed_ * 7919u + static_cast<unsigned>(std::hash<std::string>{}(name)));
      for (std::int64_t i = 0; i < n; ++i)
        at->second.push_back(mean + spread * (static_cast<float>(random() & 0xffffff) / 0x800000 - 1.0f));
    }
    return {name, DType::kF32, std::move(shape), std::as_bytes(std::span<const float>(at->second))};
  }

  ModelConfig config_;
  unsigned seed_;
  std::optional<int> poison_;
  TokenizerFiles tokenizer_;
  GenerationDefaults generation_;
  mutable std::map<std::string, std::vector<float>> values_;
};

}  // namespace monograph::testing
