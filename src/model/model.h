// A loaded model: weights on a device, and the forward as one sequence of ops.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "model/config.h"
#include "model/model_files.h"
#include "ops/backend.h"
#include "ops/ops.h"

namespace monograph {

/// Fixed activation buffers of one forward, carved from the arena for the bucket's capacity.
struct Activations {
  Tensor<2> x;            // [C, E]
  Tensor<3> q;            // [C, H, D]
  Tensor<3> attn;         // [C, H, D]
  Tensor<2> ffn;          // [C, F]
  View<float, 2> logits;  // [Bmax, V]
  Tensor<2> last_x;       // [Bmax, E]

  /// Those of the step's last_rows(), [Bmax, ...]. Once the rows of x and q have been taken, attention's memory is that
  /// of q, and the other way round.
  Activations last_rows() const;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::int64_t weight_bytes() const = 0;
  /// The attention that its forward uses. An override must honour the mode: in kPrefillGraph it throws
  /// AttentionUnsupported instead of giving one that is not safe there (S-57; a test asks every family).
  virtual const AttentionBackend& plan_attention(const Backend& backend, AttentionMode mode) const;
  /// Queues one forward: embedding, layers, logits of the sampled rows. Everything after derive_inputs, before sample.
  virtual void forward(Ops& ops, const StepInputs& in, std::span<const KvLayer> kv, Activations& a) const = 0;
};

/// Loads weights to the backend. `progress(done_bytes, total_bytes)` may throw Error(kCancelled). `max_seq_len` sizes
/// the rotation table.
std::unique_ptr<Model> load_model(const ModelFiles& files, Backend& backend, int max_seq_len,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace monograph
