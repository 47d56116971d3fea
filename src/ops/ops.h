// Everything a forward may ask for, at the grain of fused kernels: one op, one launch on a GPU. Every backend keeps
// these contracts and the bits rule (SPEC D8): a row's result depends on nothing but the row's own inputs.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/view.h"
#include "device/device.h"
#include "ops/inputs.h"
#include "ops/kv_layer.h"

namespace monograph {

/// One matrix as a file holds it: `rows` outputs of `cols` inputs, row-major, in blocks of its type.
struct MatrixPart {
  DType dtype = DType::kF32;
  int rows = 0, cols = 0;
  std::span<const std::byte> bytes;
  /// Row r of the packed matrix is row row_order[r] of the file; empty: as it is. (Undoes GGUF's permuted q and k.)
  std::vector<int> row_order;
};

/// What a matrix is for; a backend may lay it out accordingly.
enum class MatrixRole { kQkv, kPlain, kGateUp, kEmbedding };

/// Weights in a backend's own layout, held once. Parts are stacked along the rows.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int rows() const = 0;
  virtual int cols() const = 0;
  virtual std::int64_t bytes() const = 0;
};

/// Weights of a layer's attention input. Norms and biases are float32.
struct QkvWeights {
  View<const float, 1> norm;            // [E]
  const PackedMatrix* qkv = nullptr;    // [(H + 2 K) D, E]: q rows, then k, then v
  View<const float, 1> bias;            // [(H + 2 K) D] or empty
  View<const float, 1> q_norm, k_norm;  // [D] or empty: per-head RMS norm before the rotation
};

/// cos and sin of every position's angles, float32 [max_seq_len, rotary_dim / 2], attention factor included.
struct RopeTable {
  View<const float, 2> cos, sin;
  int rotary_dim = 0;
  /// mRoPE: for frequency i, which of the P position ids it uses; empty: `positions`.
  std::vector<int> id_of_frequency;
};

/// The largest shapes that a backend will be asked for.
struct WorkspaceShape {
  int max_tokens = 0, max_rows = 0;
  int model_dim = 0, ffn_dim = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, vocab_size = 0;
  int sampled_vocab = 0;  ///< What sample() is going to be asked for; another value works, but may be slower.
};

class Ops {
 public:
  virtual ~Ops() = default;
  /// Called before the first forward and outside any capture: everything an op allocates for itself is allocated here.
  virtual void reserve(const WorkspaceShape&) {}
  /// Device memory that reserve() takes, told before it is taken.
  virtual std::int64_t workspace_bytes(const WorkspaceShape&) const { return 0; }
  /// F32 or BF16: the dtype of every activation tensor and of the KV cache.
  virtual DType activation_dtype() const = 0;
  /// The block size that attend() needs; 0: any.
  virtual int needed_block_size() const { return 0; }

  /// Takes the bytes over into the backend's layout; `head_dim` for kQkv, whose heads a backend may lay out its own
  /// way. Throws Error(kUnsupported) naming a dtype it cannot pack.
  virtual std::unique_ptr<PackedMatrix> pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim = 0) = 0;

  /// First node. Copies one of two host staging areas (the one `*selector` names) to the device's: fields up to the
  /// counts in use, tables whole, the bucket's C ids and C*P position ids. `to` and both `from` have the layout
  /// `layout`.
  virtual void fetch_inputs(void* to, const void* const from[2], const std::int32_t* selector,
                            const StagingLayout& layout, const InputShape& shape, int capacity) = 0;

  /// Second node: derives cu_seqlens .. last from lengths and tables (A.2's "node" rows, oracle: graph/padding),
  /// and brings the history of every slot < R up to date: its n_found ids of `found`, then the step's tokens.
  virtual void derive_inputs(const StepInputs& in) = 0;

  /// x[t] = table[input_ids[t]].   x [C, E];  table [V, E];  rows with an id outside the table are zero.
  /// `next_norm` [E] or empty: the norm of the op that reads x next, which a backend may prepare while it writes x.
  virtual void embed(Tensor<2> x, const PackedMatrix& table, View<const float, 1> next_norm, const StepInputs& in) = 0;

  /// qkv = rms_norm(x) @ W^T + bias; q and k normalised per head (if asked) and rotated; k and v stored at kv_locs.
  ///   q [C, H, D] out;  x [C, E];  rotation pairs are (i, i + rotary_dim/2). (arXiv:1910.07467, arXiv:2104.09864)
  virtual void project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                           float norm_eps, const StepInputs& in) = 0;

  /// Row sample_rows[r] of x and q becomes row r of x_out and q_out, for slots r < R; other rows are left as they are.
  /// Bits are copied; no two of the tensors overlap.   x_out [Bmax, E], q_out [Bmax, H, D];  x [C, E], q [C, H, D]
  virtual void take_rows(Tensor<2> x_out, Tensor<3> q_out, Tensor<2> x, Tensor<3> q, const StepInputs& in) = 0;

  /// Whether a forward of this shape is faster if its last layer takes the rows that are sampled before attention, and
  /// runs on these alone.
  virtual bool pays_to_take_rows(int capacity, int max_rows) const = 0;

  /// Causal attention of each token over its own sequence's K and V, read through the block table, new tokens included:
  /// token at position p sees keys 0..p. Keys go in tiles of block_size and splits of 512 at absolute key positions;
  /// partial results are combined in ascending split order, for every row alike.   out, q [C, H, D];  H a multiple of
  /// K.
  virtual void attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) = 0;

  /// x += a @ W^T.   x [C, N];  a [C, M];  W [N, M];  next_norm [N] or empty, as embed's.
  virtual void add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& w, View<const float, 1> next_norm,
                           const StepInputs& in) = 0;

  /// out = silu(n @ gate^T) * (n @ up^T), n = rms_norm(x).   out [C, F];  W [2F, E]: gate rows, then up rows.
  /// (arXiv:2002.05202)
  virtual void gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> norm, float norm_eps, const PackedMatrix& w,
                        const StepInputs& in) = 0;

  /// logits[r] = rms_norm(x[sample_rows[r]]) @ head^T for slots r < R with samples = 1; other rows are left as they
  /// are.
  ///   logits [Bmax, V] float32;  x [C, E];  head [V, E]
  virtual void head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> norm, float norm_eps,
                           const PackedMatrix& head, const StepInputs& in) = 0;

  /// Last node. Samples every slot r < R with samples = 1 (ops/sampling.h has the exact rule), into host memory.
  ///   out [Bmax] host;  logits [Bmax, V], not changed;  only ids < n_vocab may be chosen (padding rows of the head
  ///   never).
  virtual void sample(SampledRow* out, View<const float, 2> logits, int n_vocab, const StepInputs& in) = 0;
};

}  // namespace monograph
