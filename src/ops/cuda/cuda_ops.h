// The ops on an NVIDIA GPU, in bfloat16 with fp32 sums. Each op is one or two kernels on the device's stream.
#pragma once
#include "device/cuda/cuda_device.h"
#include "ops/cuda/gemm_inputs.cuh"
#include "ops/cuda/inputs.cuh"
#include "ops/cuda/launch_stream.h"
#include "ops/cuda/weight_packer.h"
#include "ops/ops.h"

namespace monograph {

/// Weights as bfloat16, row-major [rows, cols]; gate and up rows alternate.
class CudaPackedMatrix : public PackedMatrix {
 public:
  CudaPackedMatrix(Buffer weights, int rows, int cols) : weights_(std::move(weights)), rows_(rows), cols_(cols) {}
  int rows() const override { return rows_; }
  int cols() const override { return cols_; }
  std::int64_t bytes() const override { return weights_.bytes(); }
  const void* data() const { return weights_.data(); }

 private:
  Buffer weights_;
  int rows_, cols_;
};

namespace cuda {
/// Whether the kernels that the driver loaded are those of compute capability 9.0. Another GPU has the PTX of 8.0, in
/// which Hopper's kernels are empty; so has this one under CUDA_FORCE_PTX_JIT=1.
bool has_hopper_kernels();
}  // namespace cuda

/// `hopper`: on that path, which needs has_hopper_kernels(); else on that of sm80/.
class CudaOps : public Ops {
 public:
  CudaOps(CudaDevice& device, bool hopper);

  DType activation_dtype() const override { return DType::kBF16; }
  int needed_block_size() const override;
  void reserve(const WorkspaceShape& shape) override;
  std::int64_t workspace_bytes(const WorkspaceShape& shape) const override;
  std::unique_ptr<PackedMatrix> pack(std::span<const MatrixPart> parts, MatrixRole role, int head_dim) override;
  void fetch_inputs(void* to, const void* const from[2], const std::int32_t* selector, const StagingLayout& layout,
                    const InputShape& shape, int capacity) override;
  void derive_inputs(const StepInputs& in) override;
  void embed(Tensor<2> x, const PackedMatrix& table, View<const float, 1> next_norm, const StepInputs& in) override;
  void project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                   float norm_eps, const StepInputs& in) override;
  void take_rows(Tensor<2> x_out, Tensor<3> q_out, Tensor<2> x, Tensor<3> q, const StepInputs& in) override;
  bool pays_to_take_rows(int capacity, int max_rows) const override;
  void attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) override;
  void add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& w, View<const float, 1> next_norm,
                   const StepInputs& in) override;
  void gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> norm, float norm_eps, const PackedMatrix& w,
                const StepInputs& in) override;
  void head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> norm, float norm_eps,
                   const PackedMatrix& head, const StepInputs& in) override;
  void sample(SampledRow* out, View<const float, 2> logits, int n_vocab, const StepInputs& in) override;

 private:
  /// The work list of a step, or that of its last_rows().
  cuda::AttentionWork attention_work(const StepInputs& in) const;
  /// What the next writer of x is to leave for `norm` (empty: nothing).
  cuda::NextNorm prepare(const Tensor<2>& x, View<const float, 1> norm);
  bool is_prepared(const Tensor<2>& x, View<const float, 1> norm) const;
  /// The inputs of a product of norm(x) with w; prepares the norm if x's writer has not.
  cuda::GemmInputs normed(const Tensor<2>& x, View<const float, 1> norm, float eps, const CudaPackedMatrix& w,
                          const std::int32_t* n_rows);

  /// Which rows weighted_ and squares_ are of, and for which norm.
  struct Prepared {
    const void* x = nullptr;
    cuda::NextNorm next;
  };
  /// Which logits best_keys_ belongs to, between head_logits and the sample that follows it.
  struct HeadKeys {
    const float* logits = nullptr;
    int n_vocab = 0;
  };

  CudaDevice& device_;
  cuda::LaunchStream stream_;
  std::unique_ptr<cuda::WeightPacker> packer_;  // while weights are loaded
  Buffer choice_;                               // FetchChoice
  Buffer weighted_;                             // bf16 [max tokens, E]: rows of x times the next norm's weight
  Buffer squares_;                              // float32 [max tokens, E / 8 or 32]: their sums of squares
  Buffer sampled_, sampled_squares_;            // the same of the rows that are sampled
  Buffer qkv_;                                  // float32 [max tokens, (H + 2K) D]
  Buffer work_, last_work_;                     // attention work lists: of a step, and of its last_rows()
  Buffer processed_;                            // float32 [max rows, V]: logits after bias and penalties
  Buffer counts_;     // int32 [max rows, V]: occurrences of ids in a row's history, zero between steps
  Buffer best_keys_;  // uint64 [kNarrowRows, kMultiprocessors]: the best rank key that each CTA of a narrow head found
  Prepared prepared_;
  HeadKeys head_keys_;
  WorkspaceShape shape_;
};

}  // namespace monograph
