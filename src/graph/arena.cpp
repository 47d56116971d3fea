#include "graph/arena.h"

namespace monograph {

Arena::Arena(Backend& backend, const ModelConfig& model, int max_tokens, int max_rows)
    : dtype_(backend.ops->activation_dtype()), model_(model) {
  const std::int64_t heads = static_cast<std::int64_t>(model.n_heads) * model.head_dim;
  const int element_bytes = dtype_ == DType::kF32 ? 4 : 2;
  const auto take = [&](std::int64_t width) { return backend.device->allocate(width * max_tokens * element_bytes); };
  x_ = take(model.model_dim);
  q_ = take(heads);
  attn_ = take(heads);
  ffn_ = take(model.ffn_dim);
  logits_ = backend.device->allocate(4LL * max_rows * model.vocab_size);
}

Activations Arena::activations(int capacity, int max_rows) const {
  Activations a;
  a.x = {x_.data(), dtype_, {capacity, model_.model_dim}};
  a.q = {q_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
  a.attn = {attn_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
  a.ffn = {ffn_.data(), dtype_, {capacity, model_.ffn_dim}};
  a.logits = {logits_.as<float>(), {max_rows, model_.vocab_size}};
  return a;
}

std::int64_t Arena::bytes() const { return x_.bytes() + q_.bytes() + attn_.bytes() + ffn_.bytes() + logits_.bytes(); }

std::int64_t Arena::bytes_for(DType dtype, const ModelConfig& m, std::int64_t max_tokens, std::int64_t max_rows) {
  const std::int64_t heads = static_cast<std::int64_t>(m.n_heads) * m.head_dim;
  return (dtype == DType::kF32 ? 4 : 2) * max_tokens * (m.model_dim + 2 * heads + m.ffn_dim) +
         4 * max_rows * m.vocab_size;
}

}  // namespace monograph
