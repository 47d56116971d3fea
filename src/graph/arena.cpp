#include "graph/arena.h"

namespace monograph {

Arena::Arena(Backend& backend, const ModelConfig& model, int max_tokens, int max_rows)
    : dtype_(backend.ops->activation_dtype()), model_(model) {
  const std::int64_t heads = static_cast<std::int64_t>(model.n_heads) * model.head_dim;
  const int element_bytes = dtype_ == DType::kF32 ? 4 : 2;
  const auto take = [&](std::int64_t rows, std::int64_t width) {
    return backend.device->allocate(rows * width * element_bytes);
  };
  x_ = take(max_tokens, model.model_dim);
  q_ = take(max_tokens, heads);
  attn_ = take(max_tokens, heads);
  ffn_ = take(max_tokens, model.ffn_dim);
  last_x_ = take(max_rows, model.model_dim);
  logits_ = backend.device->allocate(4LL * max_rows * model.vocab_size);
}

Activations Arena::activations(int capacity, int max_rows) const {
  Activations a;
  a.x = {x_.data(), dtype_, {capacity, model_.model_dim}};
  a.q = {q_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
  a.attn = {attn_.data(), dtype_, {capacity, model_.n_heads, model_.head_dim}};
  a.ffn = {ffn_.data(), dtype_, {capacity, model_.ffn_dim}};
  a.last_x = {last_x_.data(), dtype_, {max_rows, model_.model_dim}};
  a.logits = {logits_.as<float>(), {max_rows, model_.vocab_size}};
  return a;
}

std::int64_t Arena::bytes() const {
  return x_.bytes() + q_.bytes() + attn_.bytes() + ffn_.bytes() + last_x_.bytes() + logits_.bytes();
}

std::int64_t Arena::bytes_for(DType dtype, const ModelConfig& m, std::int64_t max_tokens, std::int64_t max_rows) {
  const std::int64_t heads = static_cast<std::int64_t>(m.n_heads) * m.head_dim;
  return (dtype == DType::kF32 ? 4 : 2) *
             (max_tokens * (m.model_dim + 2 * heads + m.ffn_dim) + max_rows * m.model_dim) +
         4 * max_rows * m.vocab_size;
}

}  // namespace monograph
