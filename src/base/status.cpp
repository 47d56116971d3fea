#include "monograph/status.h"

#include <array>

namespace monograph {
namespace {

constexpr std::array<std::string_view, kPrefillStatusCount> kNames = {
    "not_requested",
    "replayed",
    "capture_unavailable",
    "attention_backend_unsupported",
    "model_not_supported",
    "moe_config_not_supported",
    "scratch_kv_unavailable",
    "mixed_prefill_decode_not_supported",
    "input_metadata_invalid",
    "request_count_exceed_capture_limit",
    "input_tokens_exceed_capture_limit",
    "prefix_cache_not_supported",
    "request_not_supported",
    "pd_cache_store_not_supported",
    "token_type_input_not_supported",
    "multimodal_input_not_supported",
    "graph_input_shape_mismatch",
    "topology_not_supported",
    "eager_measured_faster",
    "input_embeddings_invalid",
    "lora_not_supported",
};

}  // namespace

std::string_view to_string(PrefillStatus status) { return kNames.at(static_cast<std::size_t>(status)); }

std::optional<PrefillStatus> prefill_status_from_string(std::string_view text) {
  if (text.empty()) return PrefillStatus::kNotRequested;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<PrefillStatus>(i);
  return std::nullopt;
}

}  // namespace monograph
