#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace monograph::cpu {

CpuOps::CpuOps(CpuDevice& device, DType activation_dtype, const Kernels& kernels)
    : device_(device), activation_dtype_(activation_dtype), kernels_(kernels) {
  CHECK(activation_dtype == DType::kF32 || activation_dtype == DType::kBF16);
  scratch_.resize(device.pool().size());
  samplers_.resize(device.pool().size());
}

std::unique_ptr<PackedMatrix> CpuOps::pack(std::span<const MatrixPart> parts, MatrixRole role, int) {
  int rows = 0;
  for (const MatrixPart& part : parts) rows += part.rows;
  // gated_up pairs the i-th gate panel with the i-th up panel.
  const int split_at = role == MatrixRole::kGateUp ? rows / 2 : 0;
  return std::make_unique<CpuPackedMatrix>(parts, weights_, activation_dtype_ == DType::kBF16, split_at);
}

void CpuOps::for_rows(int n_rows, const std::function<void(int, int)>& work) {
  constexpr int kGrain = 8;  // a decode step's few rows are not worth waking a thread
  pool().parallel_for(n_rows, kGrain, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t row = begin; row < end; ++row) work(static_cast<int>(row), thread);
  });
}

void CpuOps::load(float* out, const Tensor<2>& x, int row, int begin, int n) const {
  const std::int64_t at = static_cast<std::int64_t>(row) * x.shape[1] + begin;
  if (x.dtype == DType::kF32)
    std::copy_n(x.as<float>() + at, n, out);
  else
    kernels_.to_f32(out, x.as<bf16>() + at, n);
}

void CpuOps::store(const Tensor<2>& x, int row, int begin, int n, const float* values) const {
  const std::int64_t at = static_cast<std::int64_t>(row) * x.shape[1] + begin;
  if (x.dtype == DType::kF32)
    std::copy_n(values, n, x.as<float>() + at);
  else
    kernels_.to_bf16(x.as<bf16>() + at, values, n);
}

void CpuOps::add(const Tensor<2>& x, int row, int begin, int n, const float* values) const {
  if (x.dtype == DType::kF32) {
    kernels_.add(x.as<float>() + static_cast<std::int64_t>(row) * x.shape[1] + begin, values, n);
    return;
  }
  float sum[kLanes];
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    load(sum, x, row, begin + i, count);
    kernels_.add(sum, values + i, count);
    store(x, row, begin + i, count, sum);
  }
}

const float* CpuOps::normalised_rows(const Tensor<2>& x, const std::function<int(int)>& row_of, int n,
                                     const float* norm, float eps) {
  const int width = x.shape[1];
  float* rows = shared_.floats(Scratch::kRows, std::int64_t{n} * width);
  for_rows(n, [&](int i, int) {
    float* row = rows + static_cast<std::int64_t>(i) * width;
    load(row, x, row_of(i), 0, width);
    const float scale = kernels_.rms_scale(row, width, eps);
    if (activation_dtype_ != DType::kBF16) return kernels_.scale(row, row, scale, norm, width);
    // As CUDA does it: a product reads bf16(x * weight), and its rows are scaled afterwards.
    kernels_.scale(row, row, 1.0f, norm, width);
    kernels_.round_to_bf16(row, width);
    for (int e = 0; e < width; ++e) row[e] *= scale;
  });
  return rows;
}

const float* CpuOps::plain_rows(const Tensor<2>& x, int begin, int n) {
  const int width = x.shape[1];
  if (x.dtype == DType::kF32) return x.as<float>() + static_cast<std::int64_t>(begin) * width;
  float* rows = shared_.floats(Scratch::kRows, std::int64_t{n} * width);
  for_rows(n, [&](int i, int) { load(rows + static_cast<std::int64_t>(i) * width, x, begin + i, 0, width); });
  return rows;
}

void CpuOps::for_stretches(const CpuPackedMatrix& w, int begin, int end,
                           const std::function<void(int, int, int)>& work) {
  for (int p = begin; p < end;) {
    int next = p + 1;
    while (next < end && w.panel(next - 1).n_rows == kLanes) ++next;
    work(w.panel(p).row, w.panel(next - 1).row + w.panel(next - 1).n_rows - w.panel(p).row, (p - begin) * kLanes);
    p = next;
  }
}

int CpuOps::panels_per_unit(int n_panels, int n_rows) const {
  const int threads = scratch_.empty() ? 1 : static_cast<int>(scratch_.size());
  const int most = n_rows > 1 ? 4 : 8;
  const int even = n_panels / (8 * threads) / 2 * 2;
  return std::clamp(even, 2, most);
}

void CpuOps::matmul(const float* x, int n_rows, const CpuPackedMatrix& w,
                    const std::function<void(const Product&)>& finish) {
  const int per_unit = panels_per_unit(w.n_panels(), n_rows);
  pool().parallel_for(w.n_panels(), per_unit, [&](std::int64_t begin, std::int64_t end, int thread) {
    Scratch& scratch = scratch_[thread];
    const std::int64_t stride = (end - begin) * kLanes;
    float* tile = scratch.floats(Scratch::kTile, n_rows * stride);
    kernels_.matmul(tile, stride, x, w.cols(), n_rows, w, static_cast<int>(begin), static_cast<int>(end), scratch);
    finish({static_cast<int>(begin), static_cast<int>(end), tile, stride, scratch});
  });
}

void CpuOps::embed(Tensor<2> x, const PackedMatrix& table, View<const float, 1>, const StepInputs& in) {
  const auto& w = static_cast<const CpuPackedMatrix&>(table);
  CHECK(x.shape[1] == w.cols() && x.dtype == activation_dtype_);
  device_.submit("embed", [this, x, &w, in] {
    for_rows(rows_in_use(in), [&](int t, int thread) {
      const int id = in.input_ids[t];
      float* row = scratch_[thread].floats(Scratch::kTile, w.cols());
      if (id < 0 || id >= w.rows()) {
        std::fill_n(row, w.cols(), 0.0f);
      } else {
        const Panel& panel = w.panel(w.panel_of(id));
        decode_lane(row, w.data(panel), panel.dtype, w.cols(), id - panel.row);
      }
      store(x, t, 0, w.cols(), row);
    });
  });
}

void CpuOps::take_rows(Tensor<2> x_out, Tensor<3> q_out, Tensor<2> x, Tensor<3> q, const StepInputs& in) {
  CHECK(x_out.shape[1] == x.shape[1] && q_out.shape[1] == q.shape[1] && q_out.shape[2] == q.shape[2]);
  for (DType dtype : {x_out.dtype, q_out.dtype, x.dtype, q.dtype}) CHECK(dtype == activation_dtype_);
  const std::size_t element = activation_dtype_ == DType::kF32 ? 4 : 2;
  const auto copy = [](void* to, const void* from, std::int64_t to_row, std::int64_t from_row, std::size_t bytes) {
    std::memcpy(static_cast<std::byte*>(to) + to_row * bytes, static_cast<const std::byte*>(from) + from_row * bytes,
                bytes);
  };
  device_.submit("take_rows", [=] {
    for (int r = 0; r < *in.n_seqs; ++r) {
      const int row = in.sample_rows[r];
      if (row < 0) continue;
      copy(x_out.data, x.data, r, row, element * x.shape[1]);
      copy(q_out.data, q.data, r, row, element * q.shape[1] * q.shape[2]);
    }
  });
}

void CpuOps::add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& matrix, View<const float, 1>,
                         const StepInputs& in) {
  const auto& w = static_cast<const CpuPackedMatrix&>(matrix);
  CHECK(x.shape[1] == w.rows() && a.shape[1] == w.cols() && x.dtype == activation_dtype_ && a.dtype == x.dtype);
  device_.submit("add_project", [this, x, a, &w, in] {
    const int n_rows = rows_in_use(in);
    for (int begin = 0; begin < n_rows; begin += kRowBlock) {
      const int n = std::min(kRowBlock, n_rows - begin);
      matmul(plain_rows(a, begin, n), n, w, [&](const Product& product) {
        for_stretches(w, product.begin, product.end, [&](int row, int count, int column) {
          for (int i = 0; i < n; ++i) add(x, begin + i, row, count, product.values + i * product.stride + column);
        });
      });
    }
  });
}

void CpuOps::gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> norm, float norm_eps, const PackedMatrix& matrix,
                      const StepInputs& in) {
  const auto& w = static_cast<const CpuPackedMatrix&>(matrix);
  const int n_panels = w.n_panels() / 2;
  CHECK(x.shape[1] == w.cols() && 2 * out.shape[1] == w.rows() && w.n_panels() == 2 * n_panels);
  CHECK(norm.shape[0] == w.cols() && out.dtype == activation_dtype_ && x.dtype == activation_dtype_);
  device_.submit("gated_up", [=, this, &w] {
    const int n_rows = rows_in_use(in);
    for (int begin = 0; begin < n_rows; begin += kRowBlock) {
      const int n = std::min(kRowBlock, n_rows - begin);
      const float* rows = normalised_rows(
          x, [=](int i) { return begin + i; }, n, norm.data, norm_eps);
      const int per_unit = panels_per_unit(n_panels, n);
      pool().parallel_for(n_panels, per_unit, [&](std::int64_t first, std::int64_t last, int thread) {
        const int p0 = static_cast<int>(first), p1 = static_cast<int>(last);
        const std::int64_t stride = 2 * (last - first) * kLanes;
        Scratch& scratch = scratch_[thread];
        float* gate = scratch.floats(Scratch::kTile, n * stride);
        float* up = gate + stride / 2;
        kernels_.matmul(gate, stride, rows, w.cols(), n, w, p0, p1, scratch);
        kernels_.matmul(up, stride, rows, w.cols(), n, w, p0 + n_panels, p1 + n_panels, scratch);
        for (int i = 0; i < n; ++i) {
          float* row = gate + i * stride;
          kernels_.silu_multiply(row, row, up + i * stride, static_cast<int>(stride / 2));
        }
        for_stretches(w, p0, p1, [&](int row, int count, int column) {
          for (int i = 0; i < n; ++i) store(out, begin + i, row, count, gate + i * stride + column);
        });
      });
    }
  });
}

}  // namespace monograph::cpu
