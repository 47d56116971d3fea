// Which attention serves a model. Implementations declare what they can; one is chosen by shape and mode, never by
// drifting from one to the next.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "base/view.h"
#include "monograph/error.h"

namespace monograph {

/// What an attention declares; each false by default, each tested when true. (SPEC C.3)
struct BackendCapabilities {
  bool prefill_graph = false;
  bool paged_prefix = false;
  bool mixed_rows = false;
  bool publish_kv = false;
  bool feature_rows = false;
  bool token_types = false;
};

struct AttentionShape {
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  DType dtype = DType::kF32;  ///< Of activations and cache.
};

struct AttentionBackend {
  std::string name;
  std::function<bool(const AttentionShape&)> supports;  ///< Empty: nothing.
  /// "Generic" capability: its captured parameters can be refreshed in place, which decode graphs need.
  bool refreshes_in_place = false;
  BackendCapabilities capabilities;
};

/// What the attention is wanted for.
enum class AttentionMode { kDefault, kPrefillGraph };

/// No attention can serve what was asked for. Told apart by its type; the text is for people (S-56).
class AttentionUnsupported : public Error {
 public:
  explicit AttentionUnsupported(const std::string& message) : Error(ErrorCode::kUnsupported, message) {}
};

/// The first of `candidates` that supports the shape: the one that eager runs. In kPrefillGraph it must also be safe in
/// a full prefill graph; if it is not, AttentionUnsupported is thrown rather than a later candidate taken, since graph
/// and eager must give the same bits (S-55). An unknown mode is Error(kInternal).
const AttentionBackend& select_attention(std::span<const AttentionBackend> candidates, const AttentionShape& shape,
                                         AttentionMode mode);

}  // namespace monograph
