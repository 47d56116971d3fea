// The least time that a device's two ceilings allow for a forward.
#pragma once
#include "model/config.h"

namespace monograph::app {

struct Ceilings {
  double bandwidth_tb_s = 0, rate_tflop_s = 0;
  bool known() const { return bandwidth_tb_s > 0 && rate_tflop_s > 0; }
};

/// max(bytes / bandwidth, operations / rate) in microseconds, as if both overlapped perfectly, for one prompt of
/// `n_tokens` without prefix: every weight read once (16 bits each), K and V written and read once, the head for the
/// last token, causal attention counted at half.
double floor_us(const ModelConfig& model, int n_tokens, const Ceilings& ceilings);

}  // namespace monograph::app
