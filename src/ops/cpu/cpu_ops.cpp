#include "ops/cpu/cpu_ops.h"

#include <algorithm>

#include "base/check.h"

namespace monograph::cpu {

CpuOps::CpuOps(CpuDevice& device, DType activation_dtype, const Kernels& kernels)
    : device_(device), activation_dtype_(activation_dtype), kernels_(kernels) {
  CHECK(activation_dtype == DType::kF32 || activation_dtype == DType::kBF16);
  scratch_.resize(device.pool().size());
  samplers_.resize(device.pool().size());
}

std::unique_ptr<PackedMatrix> CpuOps::pack(std::span<const MatrixPart> parts, MatrixRole role) {
  int rows = 0;
  for (const MatrixPart& part : parts) rows += part.rows;
  // gated_up pairs the i-th gate panel with the i-th up panel.
  const int split_at = role == MatrixRole::kGateUp ? rows / 2 : 0;
  return std::make_unique<CpuPackedMatrix>(parts, activation_dtype_ == DType::kBF16, split_at);
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

const float* CpuOps::load_rows(Tensor<2> x, std::function<int(int)> row_of, int n, const float* norm, float eps) {
  const int width = x.shape[1];
  float* rows = shared_.floats(Scratch::kRows, std::int64_t{n} * width);
  for_rows(n, [&](int i, int) {
    float* row = rows + static_cast<std::int64_t>(i) * width;
    load(row, x, row_of(i), 0, width);
    if (!norm) return;
    kernels_.rms_norm(row, row, norm, width, eps);
    if (activation_dtype_ == DType::kBF16) kernels_.round_to_bf16(row, width);
  });
  return rows;
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

void CpuOps::embed(Tensor<2> x, const PackedMatrix& table, const StepInputs& in) {
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

void CpuOps::add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& matrix, const StepInputs& in) {
  const auto& w = static_cast<const CpuPackedMatrix&>(matrix);
  CHECK(x.shape[1] == w.rows() && a.shape[1] == w.cols() && x.dtype == activation_dtype_ && a.dtype == x.dtype);
  device_.submit("add_project", [this, x, a, &w, in] {
    const int n_rows = rows_in_use(in);
    for (int begin = 0; begin < n_rows; begin += kRowBlock) {
      const int n = std::min(kRowBlock, n_rows - begin);
      const float* rows = load_rows(
          a, [=](int i) { return begin + i; }, n, nullptr, 0);
      matmul(rows, n, w, [&](const Product& product) {
        float sum[kLanes];
        for (int p = product.begin; p < product.end; ++p) {
          const Panel& panel = w.panel(p);
          for (int i = 0; i < n; ++i) {
            load(sum, x, begin + i, panel.row, panel.n_rows);
            kernels_.add(sum, product.values + i * product.stride + (p - product.begin) * kLanes, panel.n_rows);
            store(x, begin + i, panel.row, panel.n_rows, sum);
          }
        }
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
      const float* rows = load_rows(
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
          for (int p = p0; p < p1; ++p)
            store(out, begin + i, w.panel(p).row, w.panel(p).n_rows, row + (p - p0) * kLanes);
        }
      });
    }
  });
}

}  // namespace monograph::cpu
