#include "graph/policy.h"

#include <iterator>

namespace monograph {

bool MeasuredPolicy::eager_is_faster(int bucket, int n_tokens) const {
  const auto at = times_.find(bucket);
  if (at == times_.end()) return false;
  double eager_us = at->second.eager_us;
  if (at != times_.begin() && n_tokens < bucket) {
    const auto& [below, times] = *std::prev(at);
    const double share = n_tokens <= below ? 0.0 : static_cast<double>(n_tokens - below) / (bucket - below);
    eager_us = times.eager_us + share * (at->second.eager_us - times.eager_us);
  }
  return eager_us < at->second.graph_us;
}

}  // namespace monograph
