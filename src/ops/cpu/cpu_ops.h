// The CPU backend: each op is one task that arranges the small primitives of ops/cpu/kernels.h over rows and panels.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/row_sampler.h"
#include "ops/ops.h"

namespace monograph::cpu {

class CpuOps : public Ops {
 public:
  /// `device` and `kernels` outlive this.
  CpuOps(CpuDevice& device, DType activation_dtype, const Kernels& kernels);

  DType activation_dtype() const override { return activation_dtype_; }
  const Kernels& kernels() const { return kernels_; }
  std::unique_ptr<PackedMatrix> pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim) override;
  void fetch_inputs(void* to, const void* const from[2], const std::int32_t* selector, const StagingLayout& layout,
                    const InputShape& shape, int capacity) override;
  void derive_inputs(const StepInputs& in) override;
  void embed(Tensor<2> x, const PackedMatrix& table, View<const float, 1> next_norm, const StepInputs& in) override;
  void project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                   float norm_eps, const StepInputs& in) override;
  void take_rows(Tensor<2> x_out, Tensor<3> q_out, Tensor<2> x, Tensor<3> q, const StepInputs& in) override;
  /// Copies are nothing beside products of rows that nobody needs; where there are as many rows, none are left out.
  bool pays_to_take_rows(int capacity, int max_rows) const override { return capacity > max_rows; }
  void attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) override;
  void add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& w, View<const float, 1> next_norm,
                   const StepInputs& in) override;
  void gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> norm, float norm_eps, const PackedMatrix& w,
                const StepInputs& in) override;
  void head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> norm, float norm_eps,
                   const PackedMatrix& head, const StepInputs& in) override;
  void sample(SampledRow* out, View<const float, 2> logits, int n_vocab, const StepInputs& in) override;

 private:
  /// The products of some rows with panels [begin, end) of a matrix, [n_rows][stride], on one thread.
  struct Product {
    int begin, end;
    const float* values;
    std::int64_t stride;
    Scratch& scratch;
  };
  struct Rotation;
  /// Some tokens of a slot's part of the step, for the query heads of one kv head.
  struct AttentionUnit {
    int slot, kv_head;
    int first, n_tokens;
  };

  ThreadPool& pool() { return device_.pool(); }
  /// Rows per pass over a matrix: enough to pay for decoding it, few enough to stay in the cache.
  static constexpr int kRowBlock = 256;

  /// Runs work(row, thread) over rows, on all threads if there are enough of them.
  void for_rows(int n_rows, const std::function<void(int, int)>& work);
  /// Rows row_of(0..n) of x as float32, normalised and rounded as the activation type says. In shared scratch until the
  /// next call.
  const float* normalised_rows(const Tensor<2>& x, const std::function<int(int)>& row_of, int n, const float* norm,
                               float eps);
  /// Rows begin..begin + n of x as float32: in place, or in shared scratch until the next call.
  const float* plain_rows(const Tensor<2>& x, int begin, int n);
  /// x @ w^T for n_rows contiguous rows of w.cols() floats, in tiles on all threads.
  void matmul(const float* x, int n_rows, const CpuPackedMatrix& w, const std::function<void(const Product&)>& finish);
  /// Calls work(first row of w, count, column of the product's tile) for stretches of whole panels.
  static void for_stretches(const CpuPackedMatrix& w, int begin, int end,
                            const std::function<void(int, int, int)>& work);
  int panels_per_unit(int n_panels, int n_rows) const;

  void load(float* out, const Tensor<2>& x, int row, int begin, int n) const;
  void store(const Tensor<2>& x, int row, int begin, int n, const float* values) const;
  void add(const Tensor<2>& x, int row, int begin, int n, const float* values) const;
  void project_rows(const Tensor<3>& q, const KvLayer& kv, const Tensor<2>& x, const QkvWeights& w,
                    const Rotation& rotation, float eps, const StepInputs& in, int begin, int n);
  void attend_unit(const Tensor<3>& out, const Tensor<3>& q, const KvLayer& kv, float scale, const StepInputs& in,
                   const AttentionUnit& unit, Scratch& scratch);

  CpuDevice& device_;
  DType activation_dtype_;
  const Kernels& kernels_;
  WeightMemory weights_;
  Scratch shared_;
  std::vector<Scratch> scratch_;      // per thread
  std::vector<RowSampler> samplers_;  // per thread
  std::vector<AttentionUnit> units_;
};

/// Token rows an op computes: the real ones, or with skipping off the whole bucket.
inline int rows_in_use(const StepInputs& in) { return in.skip_padding ? *in.n_tokens : in.capacity; }

}  // namespace monograph::cpu
