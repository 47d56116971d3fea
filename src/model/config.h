// What a model is, in Monograph's names, read from config.json or GGUF metadata and checked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace monograph {

/// How positions turn into rotation angles. (arXiv:2104.09864; llama3: Llama 3.1 release; yarn: arXiv:2309.00071)
struct RopeConfig {
  enum class Kind { kDefault, kLinear, kLlama3, kYarn };
  Kind kind = Kind::kDefault;
  float theta = 10000.0f;
  int rotary_dim = 0;  ///< Leading dims of a head that are rotated; head_dim for every family here.
  float factor = 1.0f;
  float low_freq_factor = 1.0f, high_freq_factor = 4.0f;          // llama3
  int original_max_position = 0;                                  // llama3, yarn
  float beta_fast = 32.0f, beta_slow = 1.0f;                      // yarn
  std::optional<float> attention_factor, mscale, mscale_all_dim;  // yarn
  /// Per-frequency divisors [rotary_dim/2] read from the file (GGUF rope_freqs.weight); they replace the llama3
  /// formula.
  std::vector<float> freq_factors;
  /// mRoPE: sizes of the sections (of rotary_dim/2) that follow each of the 3 position ids; empty = one position.
  std::vector<int> mrope_sections;
};

enum class ModelFamily { kLlama, kQwen2, kQwen3 };

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  std::string name;   ///< general.name or the folder's name; for display.
  int model_dim = 0;  ///< E
  int ffn_dim = 0;    ///< F
  int n_layers = 0;
  int n_heads = 0;       ///< H
  int n_kv_heads = 0;    ///< K
  int head_dim = 0;      ///< D
  int vocab_size = 0;    ///< V: rows of the LM head
  int max_position = 0;  ///< Longest context the model was made for.
  float norm_eps = 1e-5f;
  bool tied_head = false;  ///< The LM head is the embedding table.
  bool qkv_bias = false;
  bool qk_norm = false;          ///< Per-head RMS norm of q and k before the rotation (Qwen3).
  float attention_scale = 0.0f;  ///< 1/sqrt(head_dim) unless the model says otherwise.
  RopeConfig rope;
  int position_factor = 0;  ///< P: ints per token of explicit position ids; 0 = derived.
  std::vector<int> eos_token_ids;
  std::optional<int> bos_token_id, pad_token_id;

  /// Values in the matrices of one layer: q, k, v, their output, gate, up and down.
  std::int64_t layer_values() const {
    const std::int64_t e = model_dim, q = std::int64_t{n_heads} * head_dim, kv = std::int64_t{n_kv_heads} * head_dim;
    return e * (q + 2 * kv) + q * e + 3 * e * ffn_dim;
  }
};

}  // namespace monograph
