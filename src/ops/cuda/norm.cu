// Row norms, and what follows the qkv product: bias, per-head norm, rotation, and K and V to their blocks.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/head_keys.cuh"
#include "ops/cuda/gemm.cuh"
#include "ops/cuda/launch.cuh"

namespace monograph {
namespace {

using cuda::launch;
using cuda::let_successor_start;
using cuda::wait_for_predecessor;

constexpr int kNormRows = 4;

// One warp per row.
__global__ void __launch_bounds__(32 * kNormRows)
    norm_kernel(__nv_bfloat16* out, const __nv_bfloat16* x, const float* weight, float eps, int model_dim,
                const std::int32_t* rows, const std::int32_t* n_rows, int max_rows) {
  let_successor_start();
  wait_for_predecessor();
  const int r = blockIdx.x * kNormRows + threadIdx.x / 32;
  if (r >= (n_rows ? min(*n_rows, max_rows) : max_rows)) return;
  const int row = rows ? rows[r] : r;
  if (row < 0) return;
  cuda::normalise_row(out + static_cast<std::int64_t>(r) * model_dim, x + static_cast<std::int64_t>(row) * model_dim,
                      weight, eps, model_dim);
}

struct QkvEpilogue {
  const float* qkv;  // [C, (H + 2 K) D]
  const float* bias;
  const float *q_norm, *k_norm;
  float eps;
  const float *cos, *sin;  // [max_seq_len, half]
  int half, n_positions;
  const std::int32_t *positions, *kv_locs, *n_rows;
  const std::int32_t* position_ids;  // [C, P] with id_of_frequency, else null
  int position_factor;
  int n_heads, n_kv_heads, block_size;
  __nv_bfloat16 *q, *k, *v;
  unsigned char id_of_frequency[128];
};

// One warp per (token, head): D / 32 values a lane, as pairs (i, i + D/2) in the same lane.
template <int D>
__global__ void __launch_bounds__(256) qkv_epilogue_kernel(QkvEpilogue e) {
  let_successor_start();
  wait_for_predecessor();
  const int t = blockIdx.x, lane = threadIdx.x % 32, head = blockIdx.y * 8 + threadIdx.x / 32;
  const int n_all = e.n_heads + 2 * e.n_kv_heads;
  if (head >= n_all || (e.n_rows && t >= *e.n_rows)) return;
  constexpr int kHalf = D / 2, kPairs = (kHalf + 31) / 32;
  const float* from = e.qkv + (static_cast<std::int64_t>(t) * n_all + head) * D;
  float low[kPairs], high[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    low[j] = i < kHalf ? from[i] : 0.0f;
    high[j] = i < kHalf ? from[i + kHalf] : 0.0f;
    if (e.bias && i < kHalf) {
      low[j] += e.bias[head * D + i];
      high[j] += e.bias[head * D + i + kHalf];
    }
  }
  const bool is_q = head < e.n_heads, is_v = head >= e.n_heads + e.n_kv_heads;
  if (const float* norm = is_q ? e.q_norm : e.k_norm; norm && !is_v) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) sum = fmaf(high[j], high[j], fmaf(low[j], low[j], sum));
    const float scale = 1.0f / sqrtf(cuda::warp_sum(sum) / static_cast<float>(D) + e.eps);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = lane + 32 * j;
      if (i >= kHalf) continue;
      low[j] = low[j] * scale * norm[i];
      high[j] = high[j] * scale * norm[i + kHalf];
    }
  }
  if (!is_v) {
    const int position = e.positions[t];
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = lane + 32 * j;
      if (i >= kHalf) continue;
      int at = position;
      if (e.position_ids) at = e.position_ids[t * e.position_factor + e.id_of_frequency[i]];
      at = min(max(at, 0), e.n_positions - 1);
      const float c = e.cos[static_cast<std::int64_t>(at) * e.half + i],
                  s = e.sin[static_cast<std::int64_t>(at) * e.half + i];
      const float a = low[j], b = high[j];
      low[j] = fmaf(a, c, -(b * s));
      high[j] = fmaf(b, c, a * s);
    }
  }
  __nv_bfloat16* to;
  if (is_q) {
    to = e.q + (static_cast<std::int64_t>(t) * e.n_heads + head) * D;
  } else {
    const int kv_head = (head - e.n_heads) % e.n_kv_heads;
    const std::int32_t loc = e.kv_locs[t];
    if (loc < e.block_size) return;  // the null block is never written
    const std::int64_t row =
        (static_cast<std::int64_t>(loc / e.block_size) * e.n_kv_heads + kv_head) * e.block_size + loc % e.block_size;
    to = (is_v ? e.v : e.k) + row * D;
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= kHalf) continue;
    to[i] = __float2bfloat16_rn(low[j]);
    to[i + kHalf] = __float2bfloat16_rn(high[j]);
  }
}

/// epilogue(rms_norm(x) @ w^T), the norm inside the product where that is faster.
template <typename Epilogue>
void normed_product(cudaStream_t stream, const Tensor<2>& x, const cuda::RowNorm& norm, const CudaPackedMatrix& w,
                    __nv_bfloat16* normed, const std::int32_t* n_rows, int max_rows, const Epilogue& epilogue) {
  cuda::GemmInputs in{
      x.as<const __nv_bfloat16>(), static_cast<const __nv_bfloat16*>(w.data()), w.rows(), w.cols(), n_rows, max_rows};
  if (cuda::norms_its_rows(max_rows, w.cols())) return cuda::gemm_narrow<true>(stream, in, norm, epilogue);
  launch(stream, (max_rows + kNormRows - 1) / kNormRows, 32 * kNormRows, 0, norm_kernel, normed,
         x.as<const __nv_bfloat16>(), norm.weight, norm.eps, x.shape[1], norm.rows, n_rows, max_rows);
  in.a = normed;
  cuda::gemm(stream, in, epilogue);
}

}  // namespace

void CudaOps::project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                          float norm_eps, const StepInputs& in) {
  const std::int32_t* n_rows = in.skip_padding ? in.n_tokens : nullptr;
  const int capacity = x.shape[0], n_heads = q.shape[1], head_dim = q.shape[2];
  const auto& matrix = static_cast<const CudaPackedMatrix&>(*w.qkv);
  normed_product(stream_, x, {w.norm.data, norm_eps, nullptr}, matrix, normed_.as<__nv_bfloat16>(), n_rows, capacity,
                 cuda::StoreFloat{qkv_.as<float>(), matrix.rows(), matrix.rows()});

  QkvEpilogue e{};
  e.qkv = qkv_.as<const float>();
  e.bias = w.bias.data;
  e.q_norm = w.q_norm.data;
  e.k_norm = w.k_norm.data;
  e.eps = norm_eps;
  e.cos = rope.cos.data;
  e.sin = rope.sin.data;
  e.half = rope.rotary_dim / 2;
  e.n_positions = rope.cos.shape[0];
  e.positions = in.positions;
  e.kv_locs = in.kv_locs + static_cast<std::int64_t>(kv.group) * in.capacity;
  e.n_rows = n_rows;
  if (!rope.id_of_frequency.empty()) {
    e.position_ids = in.position_ids;
    e.position_factor = in.shape.position_factor;
    for (std::size_t i = 0; i < rope.id_of_frequency.size(); ++i)
      e.id_of_frequency[i] = static_cast<unsigned char>(rope.id_of_frequency[i]);
  }
  e.n_heads = n_heads;
  e.n_kv_heads = kv.n_kv_heads;
  e.block_size = kv.block_size;
  e.q = q.as<__nv_bfloat16>();
  e.k = static_cast<__nv_bfloat16*>(kv.k);
  e.v = static_cast<__nv_bfloat16*>(kv.v);
  const dim3 grid(capacity, (n_heads + 2 * kv.n_kv_heads + 7) / 8);
  switch (head_dim) {
    case 16:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<16>, e);
    case 32:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<32>, e);
    case 64:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<64>, e);
    case 96:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<96>, e);
    case 128:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<128>, e);
    case 256:
      return launch(stream_, grid, 256, 0, qkv_epilogue_kernel<256>, e);
    default:
      throw Error(ErrorCode::kUnsupported,
                  "head_dim " + std::to_string(head_dim) + ": the GPU kernels know 16, 32, 64, 96, 128 and 256");
  }
}

void CudaOps::add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& w, const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(w);
  cuda::gemm(stream_,
             {a.as<const __nv_bfloat16>(), static_cast<const __nv_bfloat16*>(matrix.data()), matrix.rows(),
              matrix.cols(), in.skip_padding ? in.n_tokens : nullptr, x.shape[0]},
             cuda::AddResidual{x.as<__nv_bfloat16>(), x.shape[1]});
}

void CudaOps::gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> weight, float norm_eps, const PackedMatrix& w,
                       const StepInputs& in) {
  normed_product(stream_, x, {weight.data, norm_eps, nullptr}, static_cast<const CudaPackedMatrix&>(w),
                 normed_.as<__nv_bfloat16>(), in.skip_padding ? in.n_tokens : nullptr, x.shape[0],
                 cuda::GatedSilu{out.as<__nv_bfloat16>(), out.shape[1]});
}

void CudaOps::head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> weight, float norm_eps,
                          const PackedMatrix& head, const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(head);
  const int max_rows = std::min(in.shape.max_rows, in.capacity);
  const cuda::RowNorm norm{weight.data, norm_eps, in.sample_rows};
  const cuda::StoreFloat store{logits.data, logits.shape[1], logits.shape[1]};
  head_keys_ = {};
  if (!cuda::norms_its_rows(max_rows, matrix.cols()))
    return normed_product(stream_, x, norm, matrix, normed_.as<__nv_bfloat16>(), in.n_seqs, max_rows, store);
  head_keys_ = {logits.data, shape_.sampled_vocab};
  cuda::gemm_narrow<true>(stream_,
                          {x.as<const __nv_bfloat16>(), static_cast<const __nv_bfloat16*>(matrix.data()), matrix.rows(),
                           matrix.cols(), in.n_seqs, max_rows},
                          norm, cuda::StoreLogits{store, shape_.sampled_vocab, best_keys_.as<std::uint64_t>()});
}

}  // namespace monograph
