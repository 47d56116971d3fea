// The tail of a forward: logits of the rows that sample, and their tokens. (SPEC D5)
#include <algorithm>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/sampling.h"

namespace monograph::cpu {
namespace {

bool samples(const StepInputs& in, int slot) { return slot < *in.n_seqs && in.sampling[slot].samples != 0; }

RowContext context_of(const StepInputs& in, int slot) {
  RowContext row;
  row.settings = in.sampling[slot];
  const SlotSampling& s = row.settings;
  row.bias = {in.bias + s.bias_begin, static_cast<std::size_t>(s.bias_count)};
  row.banned = {in.banned + s.banned_begin, static_cast<std::size_t>(s.banned_count)};
  if (s.history_row >= 0 && s.history_row < in.shape.max_seqs)
    row.history = {in.history_of(s.history_row), static_cast<std::size_t>(in.history.lens[s.history_row])};
  row.kv_len = in.kv_lens[slot];
  return row;
}

}  // namespace

void CpuOps::head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> norm, float norm_eps,
                         const PackedMatrix& head, const StepInputs& in) {
  const auto& w = static_cast<const CpuPackedMatrix&>(head);
  CHECK(x.shape[1] == w.cols() && norm.shape[0] == w.cols() && logits.shape[1] == w.rows());
  device_.submit("head_logits", [=, this, &w] {
    std::vector<int> slots;
    for (int slot = 0; slot < in.shape.max_rows; ++slot)
      if (samples(in, slot)) slots.push_back(slot);
    if (slots.empty()) return;
    const int n = static_cast<int>(slots.size());
    const float* rows = normalised_rows(
        x, [&](int i) { return in.sample_rows[slots[i]]; }, n, norm.data, norm_eps);
    matmul(rows, n, w, [&](const Product& product) {
      for_stretches(w, product.begin, product.end, [&](int row, int count, int column) {
        for (int i = 0; i < n; ++i)
          std::copy_n(product.values + i * product.stride + column, count,
                      logits.data + static_cast<std::int64_t>(slots[i]) * logits.shape[1] + row);
      });
    });
  });
}

void CpuOps::sample(SampledRow* out, View<const float, 2> logits, int n_vocab, const StepInputs& in) {
  CHECK(n_vocab >= 1 && n_vocab <= logits.shape[1]);
  device_.submit("sample", [=, this] {
    for (int slot = *in.n_seqs; slot < in.shape.max_rows; ++slot) out[slot].token = sampling::kTokenNone;
    pool().parallel_for(*in.n_seqs, 1, [&](std::int64_t begin, std::int64_t, int thread) {
      const int slot = static_cast<int>(begin);
      if (!samples(in, slot)) {
        out[slot].token = sampling::kTokenNone;
        return;
      }
      const float* row = logits.data + begin * logits.shape[1];
      out[slot] = samplers_[thread].sample({row, static_cast<std::size_t>(n_vocab)}, context_of(in, slot), kernels_);
    });
  });
}

}  // namespace monograph::cpu
