// A model's weights on a backend: matrices in its own layout, norms and biases as float32 vectors.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "model/model_files.h"
#include "ops/backend.h"
#include "ops/ops.h"

namespace monograph {

struct LayerWeights {
  QkvWeights attention;
  std::unique_ptr<PackedMatrix> qkv, attn_out, gate_up, down;
  View<const float, 1> ffn_norm;  // [E]
};

struct Weights {
  std::vector<LayerWeights> layers;
  std::unique_ptr<PackedMatrix> embedding;  // [V, E]
  std::unique_ptr<PackedMatrix> own_head;   // [V, E], null when tied
  View<const float, 1> final_norm;          // [E]
  RopeTable rope;
  std::vector<Buffer> vectors;  // owns norms, biases and the rotation table
  std::int64_t bytes = 0;
  const PackedMatrix& head() const { return own_head ? *own_head : *embedding; }
};

/// Loads every tensor that `files.config()` asks for, each checked against its shape by `files`.
Weights load_weights(const ModelFiles& files, Backend& backend, int max_seq_len,
                     const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace monograph
