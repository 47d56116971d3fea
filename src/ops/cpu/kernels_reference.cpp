// The primitives in plain loops: the definition of the bits that every SIMD target reproduces.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/math.h"
#include "ops/cpu/kernels.h"
#include "ops/sampling.h"

namespace monograph::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void matmul(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride, int n_rows,
            const CpuPackedMatrix& w, int panel_begin, int panel_end, Scratch& scratch) {
  const int k_count = w.cols();
  float* weights = scratch.floats(Scratch::kWeights, std::int64_t{k_count} * kLanes);
  for (int p = panel_begin; p < panel_end; ++p) {
    decode_panel(weights, w.data(w.panel(p)), w.panel(p).dtype, 0, k_count);
    for (int t = 0; t < n_rows; ++t) {
      for (int lane = 0; lane < kLanes; ++lane) {
        float sum = 0.0f;
        for (int k = 0; k < k_count; ++k) sum = std::fma(weights[k * kLanes + lane], x[t * x_stride + k], sum);
        out[t * out_stride + (p - panel_begin) * kLanes + lane] = sum;
      }
    }
  }
}

float sum_of_squares(const float* x, int n) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
  return sum_lanes(lanes);
}

float rms_scale(const float* x, int n, float eps) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  return 1.0f / std::sqrt(mean + eps);
}

void scale(float* out, const float* x, float scale, const float* weight, int n) {
  for (int i = 0; i < n; ++i) out[i] = (x[i] * scale) * weight[i];
}

void silu_multiply(float* out, const float* gate, const float* up, int n) {
  for (int i = 0; i < n; ++i) out[i] = silu_f32(gate[i]) * up[i];
}

void rotate(float* x, const float* cos, const float* sin, int half) {
  for (int i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = std::fma(a, cos[i], -(b * sin[i]));
    x[i + half] = std::fma(b, cos[i], a * sin[i]);
  }
}

void add(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] += y[i];
}

void widen(float* out, const bf16* x, int n) {
  for (int i = 0; i < n; ++i) out[i] = to_float(x[i]);
}

void narrow(bf16* out, const float* x, int n) {
  for (int i = 0; i < n; ++i) out[i] = to_bf16(x[i]);
}

void round_to_bf16(float* x, int n) {
  for (int i = 0; i < n; ++i) x[i] = to_float(to_bf16(x[i]));
}

/// One kv head's keys or values of a cache block.
class Rows {
 public:
  Rows(const void* data, const KvLayer& kv, int block, int head)
      : data_(data),
        f32_(kv.dtype == DType::kF32),
        offset_((static_cast<std::int64_t>(block) * kv.n_kv_heads + head) * kv.block_size * kv.head_dim),
        dim_(kv.head_dim) {}
  float at(int row, int d) const {
    const std::int64_t i = offset_ + static_cast<std::int64_t>(row) * dim_ + d;
    return f32_ ? static_cast<const float*>(data_)[i] : to_float(static_cast<const bf16*>(data_)[i]);
  }

 private:
  const void* data_;
  bool f32_;
  std::int64_t offset_;
  int dim_;
};

/// A softmax over some keys, not yet divided: weights relative to e^max.
struct Partial {
  float max = -kInfinity, sum = 0.0f;
  std::vector<float> acc;
};

/// Takes the keys `first .. first + n` of one tile (they lie in one block) into the split's running softmax.
void add_tile(Partial& split, const AttentionTile& tile, const float* q, int first, int n) {
  const KvLayer& kv = tile.kv;
  const int block = tile.table[first / kv.block_size];
  const Rows keys(kv.k, kv, block, tile.kv_head), values(kv.v, kv, block, tile.kv_head);
  std::vector<float> p(n);
  float max = -kInfinity;
  for (int j = 0; j < n; ++j) {
    float dot = 0.0f;
    for (int d = 0; d < kv.head_dim; ++d) dot = std::fma(keys.at(j, d), q[d], dot);
    p[j] = dot * tile.scale;
    max = p[j] > max ? p[j] : max;
  }
  const float new_max = max > split.max ? max : split.max;
  const float keep = exp_f32(split.max - new_max);
  float lanes[16] = {};
  for (int j = 0; j < n; ++j) {
    p[j] = exp_f32(p[j] - new_max);
    lanes[j % 16] += p[j];
    if (tile.round_probabilities) p[j] = to_float(to_bf16(p[j]));
  }
  split.sum = std::fma(split.sum, keep, sum_lanes(lanes));
  for (int d = 0; d < kv.head_dim; ++d) {
    float acc = split.acc[d] * keep;
    for (int j = 0; j < n; ++j) acc = std::fma(p[j], values.at(j, d), acc);
    split.acc[d] = acc;
  }
  split.max = new_max;
}

void combine(float* out, const std::vector<Partial>& splits, int dim) {
  float max = -kInfinity, sum = 0.0f;
  for (const Partial& split : splits) max = split.max > max ? split.max : max;
  std::vector<float> acc(dim, 0.0f);
  for (const Partial& split : splits) {
    const float weight = exp_f32(split.max - max);
    sum = std::fma(split.sum, weight, sum);
    for (int d = 0; d < dim; ++d) acc[d] = std::fma(split.acc[d], weight, acc[d]);
  }
  const float inverse = 1.0f / sum;
  for (int d = 0; d < dim; ++d) out[d] = acc[d] * inverse;
}

void attend_row(float* out, const AttentionTile& tile, const float* q, int n_keys) {
  std::vector<Partial> splits;
  for (int begin = 0; begin < n_keys; begin += kSplitKeys) {
    Partial split;
    split.acc.assign(tile.kv.head_dim, 0.0f);
    const int end = std::min(n_keys, begin + kSplitKeys);
    for (int first = begin; first < end; first += tile.kv.block_size)
      add_tile(split, tile, q, first, std::min(end - first, tile.kv.block_size));
    splits.push_back(std::move(split));
  }
  combine(out, splits, tile.kv.head_dim);
}

void attend(const AttentionTile& tile, Scratch&) {
  for (int row = 0; row < tile.n_tokens * tile.n_heads; ++row) {
    const std::int64_t at = std::int64_t{row} * tile.kv.head_dim;
    attend_row(tile.out + at, tile, tile.q + at, tile.first_position + row / tile.n_heads + 1);
  }
}

RowMaximum maximum(const float* x, int n) {
  RowMaximum best;
  for (int i = 0; i < n; ++i) {
    if (sampling::is_bad(x[i])) best.bad = true;
    if (i == 0 || x[i] > best.value) best = {x[i], i, best.bad};
  }
  return best;
}

void probabilities(float* out, const float* x, int n, float max, float temperature) {
  for (int i = 0; i < n; ++i) out[i] = sampling::probability(x[i], max, temperature);
}

void exp(float* out, const float* x, int n) {
  for (int i = 0; i < n; ++i) out[i] = exp_f32(x[i]);
}

constexpr Kernels kReference = {"reference", matmul, rms_scale,     scale,  silu_multiply, rotate,        add,
                                widen,       narrow, round_to_bf16, attend, maximum,       probabilities, exp};

}  // namespace

const Kernels& reference_kernels() { return kReference; }

}  // namespace monograph::cpu
