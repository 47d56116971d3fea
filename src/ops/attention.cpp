#include "ops/attention.h"

namespace monograph {
namespace {

std::string describe(const AttentionShape& shape) {
  return std::to_string(shape.n_heads) + " heads over " + std::to_string(shape.n_kv_heads) + " of K and V, head_dim " +
         std::to_string(shape.head_dim) + ", " + std::string(to_string(shape.dtype));
}

}  // namespace

const AttentionBackend& select_attention(std::span<const AttentionBackend> candidates, const AttentionShape& shape,
                                         AttentionMode mode) {
  if (mode != AttentionMode::kDefault && mode != AttentionMode::kPrefillGraph)
    throw Error(ErrorCode::kInternal,
                "attention mode " + std::to_string(static_cast<int>(mode)) + ": expected kDefault or kPrefillGraph");
  for (const AttentionBackend& candidate : candidates) {
    if (!candidate.supports || !candidate.supports(shape)) continue;
    if (mode == AttentionMode::kPrefillGraph && !candidate.capabilities.prefill_graph)
      throw AttentionUnsupported("attention " + candidate.name + " is not safe in a prefill graph (" + describe(shape) +
                                 ")");
    return candidate;
  }
  throw AttentionUnsupported("none of " + std::to_string(candidates.size()) + " attentions serves " + describe(shape));
}

}  // namespace monograph
