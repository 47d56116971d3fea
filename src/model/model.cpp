#include "model/model.h"

namespace monograph {

const AttentionBackend& Model::plan_attention(const Backend& backend, AttentionMode mode) const {
  const ModelConfig& c = config();
  const AttentionShape shape{c.n_heads, c.n_kv_heads, c.head_dim, backend.ops->activation_dtype()};
  return select_attention(backend.attention, shape, mode);
}

Activations Activations::last_rows() const {
  const int n = last_x.shape[0];
  Activations rows = *this;
  rows.x = last_x;
  rows.q = {attn.data, attn.dtype, {n, attn.shape[1], attn.shape[2]}};
  rows.attn = {q.data, q.dtype, {n, q.shape[1], q.shape[2]}};
  rows.ffn.shape[0] = n;
  return rows;
}

}  // namespace monograph
