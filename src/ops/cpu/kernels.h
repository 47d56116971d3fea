// The small primitives the CPU backend's ops are composed of, each with plain reference loops and SIMD versions that
// give the same bits. One table per target.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bf16.h"
#include "ops/cpu/packed_matrix.h"
#include "ops/cpu/scratch.h"
#include "ops/kv_layer.h"

namespace monograph::cpu {

struct RowMaximum {
  float value = 0;
  std::int32_t id = 0;  ///< Lowest id that has it.
  bool bad = false;     ///< Some element is NaN or +infinity; then the rest means nothing.
};

/// Attention of `n_tokens` consecutive tokens of one sequence, for the query heads that share one kv head.
struct AttentionTile {
  KvLayer kv;
  const std::int32_t* table = nullptr;  ///< The sequence's block table row.
  int kv_head = 0;
  int first_position = 0;  ///< Of the first token; token i sees keys 0..first_position + i.
  int n_tokens = 0, n_heads = 0;
  const float* q = nullptr;  ///< [n_tokens][n_heads][head_dim]
  float* out = nullptr;      ///< Likewise; may not alias q.
  float scale = 1.0f;
  bool round_probabilities = false;  ///< To bfloat16 before they weigh the values.
};

/// Keys per split of attention (SPEC D8): a multiple of every allowed block size.
inline constexpr int kSplitKeys = 512;

struct Kernels {
  const char* name;

  /// out[t, c] = sum over k of w[row(c), k] * x[t, k], for the 16 (panel_end - panel_begin) lanes of the panels: one
  /// accumulator per element, from 0, fused multiply-add, k ascending. Lanes past a panel's rows hold 0.
  void (*matmul)(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride, int n_rows,
                 const CpuPackedMatrix& w, int panel_begin, int panel_end, Scratch& scratch);

  /// 1 / sqrt(mean(x^2) + eps). The sum of squares has 16 lanes (base/math.h).
  float (*rms_scale)(const float* x, int n, float eps);
  /// out[e] = (x[e] * scale) * weight[e]
  void (*scale)(float* out, const float* x, float scale, const float* weight, int n);

  /// out[i] = silu(gate[i]) * up[i]
  void (*silu_multiply)(float* out, const float* gate, const float* up, int n);

  /// Rotates pairs (i, i + half) of x in place: a' = a cos - b sin, b' = b cos + a sin.
  void (*rotate)(float* x, const float* cos, const float* sin, int half);

  void (*add)(float* x, const float* y, int n);  ///< x[i] += y[i]
  void (*to_f32)(float* out, const bf16* x, int n);
  void (*to_bf16)(bf16* out, const float* x, int n);
  void (*round_to_bf16)(float* x, int n);  ///< In place, kept as float32.

  void (*attend)(const AttentionTile& tile, Scratch& scratch);

  RowMaximum (*maximum)(const float* x, int n);
  /// sampling::probability of each element.
  void (*probabilities)(float* out, const float* x, int n, float max, float temperature);
  void (*exp)(float* out, const float* x, int n);  ///< exp_f32 of each element.
};

/// Plain loops: the definition of every other table's bits.
const Kernels& reference_kernels();

/// Tables of the SIMD targets that this CPU can run, best first; empty on a CPU without fused multiply-add.
std::vector<const Kernels*> simd_kernels();

/// Names of the tables that this CPU can run, best first; "reference" is always last.
std::vector<std::string> kernel_targets();
/// "" is the best. Throws Error(kUnsupported) that lists kernel_targets() if there is no such target here.
const Kernels& find_kernels(std::string_view target);

}  // namespace monograph::cpu
