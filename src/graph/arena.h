// One block of activations for the largest step, shared by all graphs and eager steps: they never overlap in time.
#pragma once
#include "model/model.h"
#include "ops/backend.h"

namespace monograph {

class Arena {
 public:
  Arena(Backend& backend, const ModelConfig& model, int max_tokens, int max_rows);
  /// The same memory for every capacity up to max_tokens.
  Activations activations(int capacity, int max_rows) const;
  const float* logits() const { return logits_.as<float>(); }
  std::int64_t bytes() const;
  /// bytes() of an arena before it is made.
  static std::int64_t bytes_for(DType dtype, const ModelConfig& model, std::int64_t max_tokens, std::int64_t max_rows);

 private:
  DType dtype_;
  ModelConfig model_;
  Buffer x_, q_, attn_, ffn_, last_x_, logits_;
};

}  // namespace monograph
