// The products of a layer with the norms before them, and what follows the qkv product: bias, per-head norm, rotation,
// and K and V to their blocks.
#include <algorithm>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/gemm.cuh"
#include "ops/cuda/head_keys.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/row_norm.cuh"

namespace monograph {
namespace {

using cuda::launch;
using cuda::let_successor_start;
using cuda::wait_for_predecessor;

/// For more rows a norm costs less as a kernel of its own than as part of the longer end of every tile.
constexpr int kPreparedRows = 128;

// What add_project and embed leave for the norm that follows, where they did not: of row r, or of row rows[r] alone.
// With `scales` the squares are summed here and now.
__global__ void __launch_bounds__(128)
    prepare_kernel(cuda::NextNorm next, const __nv_bfloat16* x, const std::int32_t* rows, const std::int32_t* n_rows,
                   float* scales, float eps) {
  let_successor_start();
  wait_for_predecessor();
  const int r = blockIdx.x;
  if (n_rows && r >= *n_rows) return;
  const int row = rows ? rows[r] : r;
  if (row < 0) return;
  const auto* from = reinterpret_cast<const int4*>(x + static_cast<std::int64_t>(row) * next.n);
  if (!scales) return cuda::leave_row(next, r, from, nullptr, next.n);
  extern __shared__ float squares[];
  cuda::leave_row({next.weight, next.weighted + static_cast<std::int64_t>(r) * next.n, squares, next.n, next.columns},
                  0, from, nullptr, next.n);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float scale[1];
  cuda::row_scales<1>({squares, next.columns, eps}, next.n, nullptr, 0, 1, scale);
  if (threadIdx.x == 0) scales[r] = scale[0];
}

/// The inputs of a product of w with rows that `next` was left of.
cuda::GemmInputs inputs_of(const cuda::NextNorm& next, float eps, const CudaPackedMatrix& w, const std::int32_t* n_rows,
                           int max_rows) {
  return {next.weighted,
          static_cast<const __nv_bfloat16*>(w.data()),
          w.rows(),
          w.cols(),
          n_rows,
          max_rows,
          static_cast<int>(cuda::with_whole_tiles(max_rows)),
          {next.squares, next.columns, eps}};
}

// The qkv product's epilogue as a kernel of its own, where a narrow product cannot end in it: a quad of lanes per group
// of 32 product columns, a head's groups side by side in one warp.
__global__ void __launch_bounds__(256) heads_kernel(cuda::QkvEpilogue e, const float* qkv) {
  let_successor_start();
  wait_for_predecessor();
  const int n_groups = e.head_dim / cuda::kGroup, heads_per_warp = 8 / n_groups, quad = threadIdx.x % 32 / 4;
  const int token = blockIdx.x, n_all = e.n_heads + 2 * e.n_kv_heads, group = quad % n_groups;
  const int head = (blockIdx.y * 8 + threadIdx.x / 32) * heads_per_warp + quad / n_groups, c = threadIdx.x % 4;
  const bool exists = quad / n_groups < heads_per_warp && head < n_all;
  // All that is read is asked for before the row count is known: the buffers have room for every row of the grid.
  cuda::PieceValues v = {};
  if (exists) {
    const float* from =
        qkv + (static_cast<std::int64_t>(token) * n_all + head) * e.head_dim + group * cuda::kGroup + 2 * c;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 pair = *reinterpret_cast<const float2*>(from + 8 * j);
      v[j][0] = pair.x;
      v[j][1] = pair.y;
    }
    cuda::add_bias(e, head, group, v);
  }
  const cuda::QkvRow row(e, token, exists);
  if (e.n_rows && token >= *e.n_rows) return;
  const float own = cuda::group_squares(v);
  float squares = 0.0f;
  for (int g = 0; g < n_groups; ++g) squares += __shfl_sync(~0u, own, (quad / n_groups * n_groups + g) * 4 % 32);
  const int of = exists ? head : 0;
  const cuda::GroupFactors factors(e, of, group);
  const float scale = cuda::head_scale(e, squares);
  __nv_bfloat16* const to = row.destination(e, of);
  if (e.position_ids)
    cuda::finish_group<true>(e, to, of, group, v, scale, factors, {e, row, group});
  else
    cuda::finish_group<false>(e, to, of, group, v, scale, factors, {e, row, group});
}

// The same for head dimensions that have no groups: a thread per rotation pair, one warp a head.
__global__ void __launch_bounds__(256) small_heads_kernel(cuda::QkvEpilogue e, const float* qkv) {
  let_successor_start();
  wait_for_predecessor();
  const int token = blockIdx.x, n_all = e.n_heads + 2 * e.n_kv_heads, half = e.head_dim / 2, i = threadIdx.x % 32;
  const int head = blockIdx.y * 8 + threadIdx.x / 32;
  if (head >= n_all || (e.n_rows && token >= *e.n_rows)) return;
  const float* from = qkv + (static_cast<std::int64_t>(token) * n_all + head) * e.head_dim;
  float low = i < half ? from[i] : 0.0f, high = i < half ? from[i + half] : 0.0f;
  if (e.bias && i < half) {
    low += e.bias[head * e.head_dim + i];
    high += e.bias[head * e.head_dim + i + half];
  }
  if (const float* norm = e.norm_of(head)) {
    const float scale = cuda::head_scale(e, cuda::warp_sum(fmaf(high, high, low * low)));
    low = i < half ? low * scale * norm[i] : 0.0f;
    high = i < half ? high * scale * norm[i + half] : 0.0f;
  }
  if (i >= half) return;
  const cuda::QkvRow row(e, token, true);
  if (!e.is_value(head)) {
    const int at =
        e.position_ids ? e.clamped(e.position_ids[token * e.position_factor + e.id_of_frequency[i]]) : row.position;
    const float cos = e.cos[static_cast<std::int64_t>(at) * half + i], a = low, b = high,
                sin = e.sin[static_cast<std::int64_t>(at) * half + i];
    low = fmaf(a, cos, -(b * sin));
    high = fmaf(b, cos, a * sin);
  }
  __nv_bfloat16* to = row.destination(e, head);
  if (!to) return;
  to[i] = __float2bfloat16_rn(low);
  to[i + half] = __float2bfloat16_rn(high);
}

/// work(epilogue) with the one that is made for these heads, whose dimension is one that attention has.
template <typename Work>
bool with_heads(const cuda::QkvEpilogue& e, const Work& work) {
  const auto of = [&]<int kHeadDim>() {
    return e.position_ids ? work(cuda::StoreHeads<kHeadDim, true>{e}) : work(cuda::StoreHeads<kHeadDim, false>{e});
  };
  switch (e.head_dim) {
    case 32:
      return of.template operator()<32>();
    case 64:
      return of.template operator()<64>();
    case 96:
      return of.template operator()<96>();
    case 128:
      return of.template operator()<128>();
    case 256:
      return of.template operator()<256>();
  }
  CHECK(false);
  return false;
}

}  // namespace

void CudaOps::project_qkv(Tensor<3> q, const KvLayer& kv, Tensor<2> x, const QkvWeights& w, const RopeTable& rope,
                          float norm_eps, const StepInputs& in) {
  const std::int32_t* n_rows = in.skip_padding ? in.n_tokens : nullptr;
  const int capacity = x.shape[0], n_heads = q.shape[1], head_dim = q.shape[2];
  const auto& matrix = static_cast<const CudaPackedMatrix&>(*w.qkv);
  cuda::QkvEpilogue e{};
  e.bias = w.bias.data;
  e.q_norm = w.q_norm.data;
  e.k_norm = w.k_norm.data;
  e.eps = norm_eps;
  e.cos = rope.cos.data;
  e.sin = rope.sin.data;
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
  e.head_dim = head_dim;
  e.block_size = kv.block_size;
  e.q = q.as<__nv_bfloat16>();
  e.k = static_cast<__nv_bfloat16*>(kv.k);
  e.v = static_cast<__nv_bfloat16*>(kv.v);

  const cuda::GemmInputs inputs = normed(x, w.norm, norm_eps, matrix, n_rows);
  const bool grouped = head_dim % cuda::kGroup == 0;
  if (stream_.hopper && grouped &&
      with_heads(e, [&](const auto& heads) { return cuda::gemm_heads(stream_.stream, inputs, heads); }))
    return;
  cuda::gemm(stream_, inputs, cuda::StoreFloat{qkv_.as<float>(), matrix.rows(), matrix.rows()});
  const int n_all = n_heads + 2 * kv.n_kv_heads, heads_per_cta = grouped ? 8 * (8 / (head_dim / cuda::kGroup)) : 8;
  const dim3 grid(capacity, (n_all + heads_per_cta - 1) / heads_per_cta);
  if (grouped)
    launch(stream_, grid, 256, 0, heads_kernel, e, qkv_.as<const float>());
  else
    launch(stream_, grid, 256, 0, small_heads_kernel, e, qkv_.as<const float>());
}

void CudaOps::add_project(Tensor<2> x, Tensor<2> a, const PackedMatrix& w, View<const float, 1> next_norm,
                          const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(w);
  cuda::gemm(stream_,
             {a.as<const __nv_bfloat16>(), static_cast<const __nv_bfloat16*>(matrix.data()), matrix.rows(),
              matrix.cols(), in.skip_padding ? in.n_tokens : nullptr, x.shape[0]},
             cuda::AddResidual{x.as<__nv_bfloat16>(), x.shape[1],
                               x.shape[0] <= kPreparedRows ? prepare(x, next_norm) : prepare(x, {})});
}

void CudaOps::gated_up(Tensor<2> out, Tensor<2> x, View<const float, 1> norm, float norm_eps, const PackedMatrix& w,
                       const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(w);
  cuda::gemm(stream_, normed(x, norm, norm_eps, matrix, in.skip_padding ? in.n_tokens : nullptr),
             cuda::GatedSilu{out.as<__nv_bfloat16>(), out.shape[1]});
}

void CudaOps::head_logits(View<float, 2> logits, Tensor<2> x, View<const float, 1> norm, float norm_eps,
                          const PackedMatrix& head, const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(head);
  const int max_rows = std::min(in.shape.max_rows, in.capacity);
  const bool narrow = stream_.hopper && max_rows <= cuda::kNarrowRows;
  cuda::GemmInputs rows{};
  if (narrow && is_prepared(x, norm)) {
    rows = inputs_of(prepared_.next, norm_eps, matrix, in.n_seqs, max_rows);
    rows.rows = in.sample_rows;
  } else {
    const cuda::NextNorm sampled{norm.data, sampled_.as<__nv_bfloat16>(), sampled_squares_.as<float>(), x.shape[1],
                                 cuda::square_columns(max_rows)};
    launch(stream_, max_rows, 128, 0, prepare_kernel, sampled, x.as<const __nv_bfloat16>(), in.sample_rows, in.n_seqs,
           nullptr, norm_eps);
    rows = inputs_of(sampled, norm_eps, matrix, in.n_seqs, max_rows);
  }
  const cuda::StoreFloat store{logits.data, logits.shape[1], logits.shape[1]};
  head_keys_ = {};
  if (!narrow) return cuda::gemm(stream_, rows, store);
  head_keys_ = {logits.data, shape_.sampled_vocab};
  cuda::gemm_narrow(stream_.stream, rows,
                    cuda::StoreLogits{store, shape_.sampled_vocab, best_keys_.as<std::uint64_t>()});
}

bool CudaOps::is_prepared(const Tensor<2>& x, View<const float, 1> norm) const {
  return prepared_.x == x.data && prepared_.next.weight == norm.data;
}

cuda::NextNorm CudaOps::prepare(const Tensor<2>& x, View<const float, 1> norm) {
  prepared_ = {x.data, {}};
  if (norm.data)
    prepared_.next = {norm.data, weighted_.as<__nv_bfloat16>(), squares_.as<float>(), x.shape[1],
                      cuda::square_columns(x.shape[0])};
  return prepared_.next;
}

cuda::GemmInputs CudaOps::normed(const Tensor<2>& x, View<const float, 1> norm, float eps, const CudaPackedMatrix& w,
                                 const std::int32_t* n_rows) {
  float* scales = nullptr;
  if (!is_prepared(x, norm)) {
    const cuda::NextNorm next = prepare(x, norm);
    if (stream_.hopper && x.shape[0] > kPreparedRows) scales = squares_.as<float>();
    launch(stream_, x.shape[0], 128, scales ? next.n / next.columns * 4 : 0, prepare_kernel, next,
           x.as<const __nv_bfloat16>(), nullptr, n_rows, scales, eps);
  }
  prepared_.x = nullptr;  // one op reads it; then x is written anew
  cuda::GemmInputs inputs = inputs_of(prepared_.next, eps, w, n_rows, x.shape[0]);
  inputs.scale.ready = scales;
  return inputs;
}

}  // namespace monograph
