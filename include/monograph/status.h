// How a forward with prefill work was served: the values of `prefill_cuda_graph_status` and how they fold into one.
#pragma once
#include <optional>
#include <string_view>

namespace monograph {

/// Outcome of one prefill forward, and the value shown on a request. The set grows only at its end. (SPEC C.1)
enum class PrefillStatus {
  kNotRequested,
  kReplayed,
  kCaptureUnavailable,
  kAttentionBackendUnsupported,
  kModelNotSupported,
  kMoeConfigNotSupported,
  kScratchKvUnavailable,
  kMixedPrefillDecodeNotSupported,
  kInputMetadataInvalid,
  kRequestCountExceedCaptureLimit,
  kInputTokensExceedCaptureLimit,
  kPrefixCacheNotSupported,
  kRequestNotSupported,
  kPdCacheStoreNotSupported,
  kTokenTypeInputNotSupported,
  kMultimodalInputNotSupported,
  kGraphInputShapeMismatch,
  kTopologyNotSupported,
  kEagerMeasuredFaster,
  kInputEmbeddingsInvalid,
  kLoraNotSupported,
};
inline constexpr int kPrefillStatusCount = 21;

std::string_view to_string(PrefillStatus status);
/// Absent or empty reads as kNotRequested (an old peer); an unknown value gives nullopt and stays text at the reader.
std::optional<PrefillStatus> prefill_status_from_string(std::string_view text);

/// The status of one request over all its prefill forwards: the first is latched; later ones may replace only
/// `replayed`. So a request shows `replayed` if and only if every one of its prefill forwards replayed. (SPEC A.6)
class PrefillRecord {
 public:
  void add(PrefillStatus forward) {
    if (n_steps_ == 0 || status_ == PrefillStatus::kReplayed) status_ = forward;
    ++n_steps_;
    if (forward == PrefillStatus::kReplayed) ++n_replays_;
  }
  PrefillStatus status() const { return status_; }
  int n_prefill_steps() const { return n_steps_; }
  int n_prefill_replays() const { return n_replays_; }

 private:
  PrefillStatus status_ = PrefillStatus::kNotRequested;
  int n_steps_ = 0;
  int n_replays_ = 0;
};

}  // namespace monograph
