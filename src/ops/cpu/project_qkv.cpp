// The attention input: norm, projection, bias, per-head norms, rotation, and the new keys and values' way to the cache.
#include <algorithm>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"

namespace monograph::cpu {

/// The angles' cos and sin, picked per token.
struct CpuOps::Rotation {
  RopeTable table;
  int half() const { return table.rotary_dim / 2; }

  /// Pointers to half() cosines and sines of token t; `room` holds 2 * half() floats for rows that must be gathered.
  std::pair<const float*, const float*> of_token(int t, const StepInputs& in, float* room) const {
    const int last = table.cos.shape[0] - 1;
    if (table.id_of_frequency.empty()) {
      const std::int64_t at = static_cast<std::int64_t>(std::clamp(in.positions[t], 0, last)) * half();
      return {table.cos.data + at, table.sin.data + at};
    }
    const std::int32_t* ids = in.position_ids + static_cast<std::int64_t>(t) * in.shape.position_factor;
    for (int i = 0; i < half(); ++i) {
      const int position = std::clamp(ids[table.id_of_frequency[i]], 0, last);
      const std::int64_t at = static_cast<std::int64_t>(position) * half() + i;
      room[i] = table.cos.data[at];
      room[half() + i] = table.sin.data[at];
    }
    return {room, room + half()};
  }
};

namespace {

void store_row(const Kernels& kernels, void* cache, const KvLayer& kv, std::int32_t loc, int head,
               const float* values) {
  const int block = loc / kv.block_size;
  if (block < 1 || block >= kv.n_blocks) return;  // the null block is never written
  const std::int64_t row = (static_cast<std::int64_t>(block) * kv.n_kv_heads + head) * kv.block_size;
  const std::int64_t at = (row + loc % kv.block_size) * kv.head_dim;
  if (kv.dtype == DType::kF32)
    std::copy_n(values, kv.head_dim, static_cast<float*>(cache) + at);
  else
    kernels.to_bf16(static_cast<bf16*>(cache) + at, values, kv.head_dim);
}

}  // namespace

void CpuOps::project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                         float norm_eps, const StepInputs& in) {
  const int n_out = (q.shape[1] + 2 * kv.n_kv_heads) * q.shape[2];
  CHECK(w.qkv && w.qkv->rows() == n_out && w.qkv->cols() == x.shape[1] && w.norm.shape[0] == x.shape[1]);
  CHECK(q.shape[2] == kv.head_dim && q.shape[1] % kv.n_kv_heads == 0);
  CHECK(w.bias.data == nullptr || w.bias.shape[0] == n_out);
  CHECK(rope.rotary_dim % 2 == 0 && rope.rotary_dim <= kv.head_dim);
  CHECK(rope.id_of_frequency.empty() || static_cast<int>(rope.id_of_frequency.size()) == rope.rotary_dim / 2);
  CHECK(q.dtype == activation_dtype_ && x.dtype == activation_dtype_ && kv.group < in.shape.n_groups);
  device_.submit("project_qkv", [this, q, kv, x, w, rotation = Rotation{rope}, norm_eps, in] {
    const int n_rows = rows_in_use(in);
    for (int begin = 0; begin < n_rows; begin += kRowBlock)
      project_rows(q, kv, x, w, rotation, norm_eps, in, begin, std::min(kRowBlock, n_rows - begin));
  });
}

void CpuOps::project_rows(const Tensor<3>& q, const KvLayer& kv, const Tensor<2>& x, const QkvWeights& weights,
                          const Rotation& rotation, float eps, const StepInputs& in, int begin, int n) {
  const auto& w = static_cast<const CpuPackedMatrix&>(*weights.qkv);
  const int dim = kv.head_dim, n_q = q.shape[1], n_kv = kv.n_kv_heads, width = w.rows();
  const float* rows = normalised_rows(
      x, [=](int i) { return begin + i; }, n, weights.norm.data, eps);
  float* qkv = shared_.floats(Scratch::kQueries, std::int64_t{n} * width);
  matmul(rows, n, w, [&](const Product& product) {
    for_stretches(w, product.begin, product.end, [&](int row, int count, int column) {
      for (int i = 0; i < n; ++i) {
        float* out = qkv + static_cast<std::int64_t>(i) * width + row;
        std::copy_n(product.values + i * product.stride + column, count, out);
        if (weights.bias.data) kernels_.add(out, weights.bias.data + row, count);
      }
    });
  });

  const Tensor<2> q_rows{q.data, q.dtype, {q.shape[0], n_q * dim}};
  for_rows(n, [&](int i, int thread) {
    const int t = begin + i;
    float* heads = qkv + static_cast<std::int64_t>(i) * width;
    float* room = scratch_[thread].floats(Scratch::kTile, 2 * rotation.half());
    const auto [cos, sin] = rotation.of_token(t, in, room);
    for (int h = 0; h < n_q + n_kv; ++h) {
      const View<const float, 1> norm = h < n_q ? weights.q_norm : weights.k_norm;
      float* head = heads + h * dim;
      if (norm.data) kernels_.scale(head, head, kernels_.rms_scale(head, dim, eps), norm.data, dim);
      kernels_.rotate(head, cos, sin, rotation.half());
    }
    store(q_rows, t, 0, n_q * dim, heads);
    const std::int32_t loc = in.kv_locs[static_cast<std::int64_t>(kv.group) * in.capacity + t];
    for (int h = 0; h < n_kv; ++h) {
      store_row(kernels_, kv.k, kv, loc, h, heads + (n_q + h) * dim);
      store_row(kernels_, kv.v, kv, loc, h, heads + (n_q + n_kv + h) * dim);
    }
  });
}

}  // namespace monograph::cpu
