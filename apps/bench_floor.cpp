#include "bench_floor.h"

#include <algorithm>

namespace monograph::app {

double floor_us(const ModelConfig& model, int n_tokens, const Ceilings& ceilings) {
  const double t = n_tokens, layers = model.n_layers, e = model.model_dim, v = model.vocab_size;
  const double q = static_cast<double>(model.n_heads) * model.head_dim;
  const double kv = 2.0 * model.n_kv_heads * model.head_dim;
  const auto weights = static_cast<double>(model.layer_values());
  const double bytes = 2 * (layers * weights + v * e) + 2 * 2 * layers * kv * t;
  const double operations = 2 * t * layers * weights + 2 * v * e + 2 * layers * q * t * t;
  return std::max(bytes / ceilings.bandwidth_tb_s, operations / ceilings.rate_tflop_s) / 1e6;
}

}  // namespace monograph::app
