// Causal attention over paged K and V, from a work list made on the device: which kernel serves which shape.
#include <algorithm>

#include "ops/cuda/attention_few.cuh"
#include "ops/cuda/attention_wide.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/sm80/attention.h"

namespace monograph {
namespace {

/// Few tokens: small tiles make more CTAs and waste fewer rows. The same bits either way.
bool is_wide(int capacity, int head_dim, int heads_per_kv) {
  return capacity > 16 && (head_dim == 64 || head_dim == 96 || head_dim == 128) && heads_per_kv <= 128;
}

}  // namespace

cuda::AttentionWork CudaOps::attention_work(const StepInputs& in) const {
  cuda::AttentionWork work;
  auto* header = (in.is_last_rows ? last_work_ : work_).as<std::int32_t>();
  work.n_items = header;
  work.n_taken = header + 32;
  work.n_done = header + 48;
  work.items = reinterpret_cast<cuda::AttentionItem*>(header + cuda::kWorkHeaderBytes / 4);
  work.heads_per_kv = shape_.n_heads / shape_.n_kv_heads;
  if (!stream_.hopper)
    work.tile_rows = cuda::sm80::attention_tile_rows(in.capacity);
  else if (is_wide(in.capacity, shape_.head_dim, work.heads_per_kv))
    work.tile_rows =
        cuda::wide_tile_rows(in.capacity, work.heads_per_kv, shape_.n_kv_heads, device_.n_multiprocessors());
  else
    work.tile_rows = cuda::kLeastTileRows;
  return work;
}

int CudaOps::needed_block_size() const { return cuda::kKeys; }

void CudaOps::attend(Tensor<3> out, Tensor<3> q, const KvLayer& kv, float scale, const StepInputs& in) {
  cuda::AttentionArguments arg{};
  arg.out = out.as<__nv_bfloat16>();
  arg.q = q.as<const __nv_bfloat16>();
  arg.k = static_cast<const __nv_bfloat16*>(kv.k);
  arg.v = static_cast<const __nv_bfloat16*>(kv.v);
  arg.table = in.table(kv.group);
  arg.table_width = in.shape.table_width;
  arg.n_heads = q.shape[1];
  arg.n_kv_heads = kv.n_kv_heads;
  arg.capacity = in.capacity;
  arg.first_group = kv.group == 0;
  arg.scale_log2 = scale * 1.44269504f;
  arg.work = attention_work(in);
  CHECK(kv.block_size == cuda::kKeys);
  const int rows = in.capacity * arg.work.heads_per_kv, head_dim = q.shape[2];
  // Every slot with tokens, the sentinel too, may leave one tile partly filled.
  const int tile_rows = arg.work.tile_rows, n_slots = std::min(in.shape.n_slots(), in.capacity);
  const int max_items = (rows + n_slots * (tile_rows - 1)) / tile_rows;
  if (!stream_.hopper) return cuda::sm80::attend(stream_, arg, head_dim, max_items);
  const cudaStream_t stream = stream_.stream;
  const auto by_rows = [&]<int D>() {
    if (is_wide(in.capacity, D, arg.work.heads_per_kv))
      cuda::launch_wide_attention<D>(stream, arg, kv.n_blocks, max_items, device_.n_multiprocessors());
    else
      cuda::launch_few_attention<D>(stream, arg, max_items);
  };
  switch (head_dim) {
    case 16:
      return cuda::launch_few_attention<16>(stream, arg, max_items);
    case 32:
      return cuda::launch_few_attention<32>(stream, arg, max_items);
    case 64:
      return by_rows.operator()<64>();
    case 96:
      return by_rows.operator()<96>();
    case 128:
      return by_rows.operator()<128>();
    case 256:
      return cuda::launch_few_attention<256>(stream, arg, max_items);
    default:
      throw Error(ErrorCode::kUnsupported,
                  "head_dim " + std::to_string(head_dim) + ": the GPU kernels know 16, 32, 64, 96, 128 and 256");
  }
}

}  // namespace monograph
