// The first nodes of a step: fetch the staged set from mapped host memory, derive the rest of the layout from it, look
// the embeddings up.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/inputs.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/row_norm.cuh"

namespace monograph {
namespace {

using cuda::launch;
using cuda::let_successor_start;
using cuda::wait_for_predecessor;

struct FetchRanges {
  std::int64_t fixed_bytes;  // from the start: counts, lengths, sampling, tables
  std::int64_t bias, banned, n_bias, n_banned, position_ids, input_ids;
  std::int64_t position_bytes, id_bytes;
};

__device__ void copy_range(char* to, const char* from, std::int64_t offset, std::int64_t bytes) {
  const std::int64_t n = (bytes + 15) / 16;
  auto* out = reinterpret_cast<int4*>(to + offset);
  const auto* in = reinterpret_cast<const int4*>(from + offset);
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    out[i] = in[i];
}

// One warp asks the host what there is to fetch, all of it in one trip over the bus. Nobody else does: reads of one
// word of host memory by many warps are served one by one (an H200: about 0.35 us for each warp, 1 us for each
// multiprocessor).
__global__ void choose_kernel(cuda::FetchChoice* choice, const char* first, const char* second,
                              const std::int32_t* selector, FetchRanges r) {
  let_successor_start();
  wait_for_predecessor();
  const char* const words[5] = {reinterpret_cast<const char*>(selector), first + r.n_bias, second + r.n_bias,
                                first + r.n_banned, second + r.n_banned};
  const int lane = static_cast<int>(threadIdx.x);
  const std::int32_t word = lane < 5 ? *reinterpret_cast<const volatile std::int32_t*>(words[lane]) : 0;
  const std::int32_t area = __shfl_sync(~0u, word, 0);
  const std::int32_t n_bias = __shfl_sync(~0u, word, 1 + area), n_banned = __shfl_sync(~0u, word, 3 + area);
  if (lane == 0) *choice = {area, n_bias, n_banned};
}

// CTAs stride over the staged bytes: host reads are latency, so as many as possible are in flight at once.
__global__ void fetch_kernel(char* to, const char* first, const char* second, const cuda::FetchChoice* choice,
                             FetchRanges r) {
  let_successor_start();
  wait_for_predecessor();
  const auto [area, n_bias, n_banned] = *choice;
  const char* from = area == 0 ? first : second;
  copy_range(to, from, 0, r.fixed_bytes);
  copy_range(to, from, r.input_ids, r.id_bytes);
  copy_range(to, from, r.position_ids, r.position_bytes);
  copy_range(to, from, r.bias, n_bias * static_cast<std::int64_t>(sizeof(BiasEntry)));
  copy_range(to, from, r.banned, n_banned * 4LL);
}

constexpr int kMaxSlots = kMaxDeriveSlots, kCostClasses = 128;

/// The slot with begins[slot] <= i < begins[slot + 1]. Empty slots share their start with the next one; the last of
/// them is the owner.
__device__ int owner(const std::int32_t* begins, int n_slots, int i) {
  int low = 0, high = n_slots;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (begins[middle] <= i)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// Writes an attention work list, items with many keys first, so that short ones fill the end of a kernel. One CTA;
/// `cu` and `tiles` are running sums of tokens and tiles over slots.
__device__ void list_items(const StepInputs& in, const cuda::AttentionWork& work, const std::int32_t* cu,
                           const std::int32_t* tiles, const std::int32_t* prefixes) {
  __shared__ std::int32_t begins[kCostClasses];
  const int n_slots = in.shape.n_slots(), n_items = tiles[n_slots], thread = threadIdx.x;
  const auto make = [&](int i) {
    const int slot = owner(tiles, n_slots, i);
    return cuda::AttentionItem{slot, tiles[slot + 1] - 1 - i, cu[slot], cu[slot + 1] - cu[slot], prefixes[slot], {},
                               {}};
  };
  // Keys in 64s, in classes an eighth apart; class 0 has most.
  const auto cost_class = [&](const cuda::AttentionItem& item) {
    const int last = min((item.tile + 1) * work.tile_rows, item.length * work.heads_per_kv) - 1;
    const int cost = (item.prefix + last / work.heads_per_kv) / 64 + 1, log = 31 - __clz(cost);
    return max(0, kCostClasses - 1 - (8 * log + (log >= 3 ? cost >> (log - 3) : cost << (3 - log)) - 8));
  };
  for (int i = thread; i < kCostClasses; i += kDeriveThreads) begins[i] = 0;
  __syncthreads();
  for (int i = thread; i < n_items; i += kDeriveThreads) atomicAdd(&begins[cost_class(make(i))], 1);
  __syncthreads();
  if (thread < 32) {
    int sum = 0;
    for (int c = 0; c < kCostClasses; c += 32) {
      const int count = begins[c + thread];
      int inclusive = count;
      for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(~0u, inclusive, d);
        if (thread >= d) inclusive += other;
      }
      begins[c + thread] = sum + inclusive - count;
      sum += __shfl_sync(~0u, inclusive, 31);
    }
  }
  __syncthreads();
  for (int i = thread; i < n_items; i += kDeriveThreads) {
    cuda::AttentionItem item = make(i);
    const std::int32_t* table = in.table(0) + static_cast<std::int64_t>(item.slot) * in.shape.table_width;
    for (int b = 0; b < 8; ++b) item.blocks[b] = b < in.shape.table_width ? table[b] : 0;
    work.items[atomicAdd(&begins[cost_class(item)], 1)] = item;
  }
  if (thread == 0) {
    *work.n_items = n_items;
    *work.n_taken = 0;
    *work.n_done = 0;
  }
}

// One CTA: the arrays of last_rows(), and with them its running sums of tokens and tiles.
__device__ void derive_last(const StepInputs& in, const cuda::AttentionWork& work, std::int32_t* cu,
                            std::int32_t* tiles) {
  const int n_slots = in.shape.n_slots(), n_real = *in.n_seqs;
  const int tiles_each = (work.heads_per_kv + work.tile_rows - 1) / work.tile_rows;
  for (int i = threadIdx.x; i <= n_slots; i += kDeriveThreads) {
    const bool real = i < n_real;
    in.last.cu_seqlens[i] = cu[i] = min(i, n_real);
    tiles[i] = min(i, n_real) * tiles_each;
    if (i == n_slots) continue;
    in.last.lengths[i] = real ? 1 : 0;
    in.last.prefixes[i] = real ? max(in.input_lengths[i] + in.prefix_lengths[i] - 1, 0) : 0;
    if (i < n_slots - 1) in.last.sample_rows[i] = real ? i : -1;
  }
  __syncthreads();
}

// Copies what prefix hits skipped from host memory to the history. All CTAs stride over a row's ids; each thread has
// several reads under way, as a trip over the bus is long. A warp looks at 32 slots at once.
__device__ void take_found(const StepInputs& in) {
  constexpr int kReads = 4;
  const int n_rows = *in.n_seqs, lane = threadIdx.x % 32;
  const int first = blockIdx.x * kDeriveThreads + threadIdx.x, stride = gridDim.x * kDeriveThreads;
  const auto copy_row = [&](int row, int n) {
    const auto* from = reinterpret_cast<const int4*>(in.found_of(row));
    std::int32_t* to = in.history_of(row);
    for (int i = first; 4 * i < n; i += kReads * stride) {
      int4 ids[kReads];
#pragma unroll
      for (int k = 0; k < kReads; ++k)
        if (4 * (i + k * stride) < n) ids[k] = from[i + k * stride];
#pragma unroll
      for (int k = 0; k < kReads; ++k)
        for (int j = 0; j < 4; ++j)
          if (const int at = 4 * (i + k * stride) + j; at < n) to[at] = (&ids[k].x)[j];
    }
  };
  for (int begin = 0; begin < n_rows; begin += 32) {
    const int slot = begin + lane, n = slot < n_rows ? in.sampling[slot].n_found : 0;
    const int row = n > 0 ? in.sampling[slot].history_row : 0;
    for (unsigned left = __ballot_sync(~0u, n > 0); left != 0; left &= left - 1) {
      const int from_lane = __ffs(static_cast<int>(left)) - 1;
      copy_row(__shfl_sync(~0u, row, from_lane), __shfl_sync(~0u, n, from_lane));
    }
  }
}

// Every CTA derives the running sums for itself (at most 1,025 slots) and then handles its own share of the tokens; CTA
// 0 also writes the per-slot arrays and the attention work list. Where there is a last_rows(), one CTA more, which has
// no tokens, writes what belongs to that.
__global__ void __launch_bounds__(kDeriveThreads)
    derive_kernel(StepInputs in, cuda::AttentionWork work, cuda::AttentionWork last_work) {
  __shared__ std::int32_t cu[kMaxSlots + 1], cu_kv[kMaxSlots + 1], tiles[kMaxSlots + 1];
  let_successor_start();
  wait_for_predecessor();
  const int n_slots = in.shape.n_slots(), thread = threadIdx.x;
  const int per_thread = (n_slots + kDeriveThreads - 1) / kDeriveThreads;
  __shared__ std::int32_t partial[3][kDeriveThreads / 32];
  // Sums of this thread's slots, then a scan over the threads.
  std::int32_t sums[3] = {0, 0, 0};
  bool has_found = false;
  const auto slot_values = [&](int slot, std::int32_t(&v)[3]) {
    const std::int32_t length = in.input_lengths[slot];
    v[0] = length;
    v[1] = length + in.prefix_lengths[slot];
    const bool computed = !(in.skip_padding && slot == n_slots - 1);
    v[2] = computed ? (length * work.heads_per_kv + work.tile_rows - 1) / work.tile_rows : 0;
  };
  for (int i = 0; i < per_thread; ++i) {
    const int slot = thread * per_thread + i;
    std::int32_t v[3];
    if (slot < n_slots) {
      slot_values(slot, v);
      for (int k = 0; k < 3; ++k) sums[k] += v[k];
      has_found |= in.sampling[slot].n_found > 0;
    }
  }
  std::int32_t before[3];
  for (int k = 0; k < 3; ++k) {
    std::int32_t inclusive = sums[k];
    for (int d = 1; d < 32; d *= 2) {
      const std::int32_t other = __shfl_up_sync(~0u, inclusive, d);
      if (thread % 32 >= d) inclusive += other;
    }
    if (thread % 32 == 31) partial[k][thread / 32] = inclusive;
    before[k] = inclusive - sums[k];
  }
  const bool any_found = __syncthreads_or(has_found);
  for (int k = 0; k < 3; ++k)
    for (int w = 0; w < thread / 32; ++w) before[k] += partial[k][w];
  for (int i = 0; i < per_thread; ++i) {
    const int slot = thread * per_thread + i;
    if (slot >= n_slots) break;
    std::int32_t v[3];
    slot_values(slot, v);
    cu[slot] = before[0];
    cu_kv[slot] = before[1];
    tiles[slot] = before[2];
    for (int k = 0; k < 3; ++k) before[k] += v[k];
    if (slot == n_slots - 1) {
      cu[n_slots] = before[0];
      cu_kv[n_slots] = before[1];
      tiles[n_slots] = before[2];
    }
  }
  __syncthreads();

  const int n_real = *in.n_seqs;
  if (blockIdx.x == 0) {
    for (int i = thread; i <= n_slots; i += kDeriveThreads) {
      in.cu_seqlens[i] = cu[i];
      in.cu_kv_seqlens[i] = cu_kv[i];
      if (i == n_slots) continue;
      in.kv_lens[i] = cu_kv[i + 1] - cu_kv[i];
      if (i < n_slots - 1) {
        in.sample_rows[i] = i < n_real ? cu[i + 1] - 1 : -1;
        if (i < n_real) in.history.lens[in.sampling[i].history_row] = cu_kv[i + 1] - cu_kv[i];
      }
    }
  }
  const bool is_last = in.has_last_rows() && blockIdx.x == gridDim.x - 1;
  if (is_last) derive_last(in, last_work, cu, tiles);
  if (blockIdx.x == 0 || is_last)
    list_items(in, is_last ? last_work : work, cu, tiles, is_last ? in.last.prefixes : in.prefix_lengths);

  for (int t = blockIdx.x * kDeriveThreads + thread; t < in.capacity; t += gridDim.x * kDeriveThreads) {
    const int slot = owner(cu, n_slots, t);
    const std::int32_t position = t - cu[slot] + in.prefix_lengths[slot];
    in.padding_offset[t] = slot * in.capacity - cu[slot];
    in.positions[t] = position;
    for (int group = 0; group < in.shape.n_groups; ++group) {
      const std::int32_t column = position / in.shape.block_size;
      const std::int32_t block =
          column < in.shape.table_width ? in.table(group)[slot * in.shape.table_width + column] : 0;
      in.kv_locs[static_cast<std::int64_t>(group) * in.capacity + t] =
          block * in.shape.block_size + position % in.shape.block_size;
    }
    if (slot < n_real) in.history_of(in.sampling[slot].history_row)[position] = in.input_ids[t];
  }
  if (any_found) take_found(in);
}

// One CTA per token; rows of 16-byte pieces.
__global__ void __launch_bounds__(128)
    embed_kernel(__nv_bfloat16* x, const __nv_bfloat16* table, int model_dim, int vocab_size, const std::int32_t* ids,
                 const std::int32_t* n_rows, cuda::NextNorm next) {
  let_successor_start();
  wait_for_predecessor();
  const int t = blockIdx.x;
  if (n_rows && t >= *n_rows) return;
  const std::int32_t id = ids[t];
  const bool known = id >= 0 && id < vocab_size;
  const auto row = [&](auto* of, int i) { return of + static_cast<std::int64_t>(i) * model_dim; };
  cuda::leave_row(next, t, known ? reinterpret_cast<const int4*>(row(table, id)) : nullptr,
                  reinterpret_cast<int4*>(row(x, t)), model_dim);
}

}  // namespace

void CudaOps::fetch_inputs(void* to, const void* const from[2], const std::int32_t* selector,
                           const StagingLayout& layout, const InputShape& shape, int capacity) {
  FetchRanges r{};
  r.fixed_bytes = layout.block_tables + 4LL * shape.n_groups * shape.n_slots() * shape.table_width;
  r.bias = layout.bias;
  r.banned = layout.banned;
  r.n_bias = layout.n_bias;
  r.n_banned = layout.n_banned;
  r.position_ids = layout.position_ids;
  r.input_ids = layout.input_ids;
  r.position_bytes = 4LL * capacity * shape.position_factor;
  r.id_bytes = 4LL * capacity;
  const auto* first = static_cast<const char*>(from[0]);
  const auto* second = static_cast<const char*>(from[1]);
  auto* choice = choice_.as<cuda::FetchChoice>();
  launch(stream_, 1, 32, 0, choose_kernel, choice, first, second, selector, r);
  launch(stream_, 32, 256, 0, fetch_kernel, static_cast<char*>(to), first, second, choice, r);
}

void CudaOps::derive_inputs(const StepInputs& in) {
  const int n_ctas = (in.capacity + kDeriveThreads - 1) / kDeriveThreads;
  const bool last = in.has_last_rows();
  launch(stream_, n_ctas + (last ? 1 : 0), kDeriveThreads, 0, derive_kernel, in, attention_work(in),
         last ? attention_work(in.last_rows()) : cuda::AttentionWork{});
}

void CudaOps::embed(Tensor<2> x, const PackedMatrix& table, View<const float, 1> next_norm, const StepInputs& in) {
  const auto& matrix = static_cast<const CudaPackedMatrix&>(table);
  launch(stream_, x.shape[0], 128, 0, embed_kernel, x.as<__nv_bfloat16>(),
         static_cast<const __nv_bfloat16*>(matrix.data()), x.shape[1], matrix.rows(), in.input_ids,
         in.skip_padding ? in.n_tokens : nullptr, prepare(x, next_norm));
}

}  // namespace monograph
