#include "model/model.h"

namespace monograph {

const AttentionBackend& Model::plan_attention(const Backend& backend, AttentionMode mode) const {
  const ModelConfig& c = config();
  const AttentionShape shape{c.n_heads, c.n_kv_heads, c.head_dim, backend.ops->activation_dtype()};
  return select_attention(backend.attention, shape, mode);
}

}  // namespace monograph
