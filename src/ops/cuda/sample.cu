// Sampling on the device by the rule of ops/sampling.h, one CTA per row. Every sum is an integer, so the order in which
// threads add does not show. The last node of a step: it writes to mapped host memory.
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/launch.cuh"
#include "ops/sampling.h"

namespace monograph {
namespace {

using cuda::launch;
using cuda::let_successor_start;
using cuda::wait_for_predecessor;
using u64 = unsigned long long;

constexpr int kThreads = 1024, kBins = 256;

struct SampleArguments {
  SampledRow* out;
  const float* logits;   // [Bmax, V]
  float* processed;      // [Bmax, V]
  std::int32_t* counts;  // [Bmax, V], zero between steps: total in the low half, output occurrences in the high
  int n_vocab, stride;
  StepInputs in;
};

__device__ u64 warp_max(u64 x) {
  for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

/// The largest of all threads' values, known to all.
__device__ u64 block_max(u64 x, u64* shared) {
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[threadIdx.x % 32];
  return warp_max(x);
}

__device__ u64 block_sum(u64 x, u64* shared) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[threadIdx.x % 32];
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

/// This thread's best key and whether it met a bad logit; several loads are in flight at once.
__device__ u64 scan(const float* z, int n_vocab, bool& bad) {
  u64 best = 0;
  const int n_quads = (reinterpret_cast<std::uintptr_t>(z) & 15) == 0 ? n_vocab / 4 : 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < n_quads; i += kThreads) {
    const float4 four = reinterpret_cast<const float4*>(z)[i];
    const float v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      bad |= sampling::is_bad(v[j]);
      best = max(best, static_cast<u64>(sampling::rank_key(v[j], 4 * i + j)));
    }
  }
  for (int id = 4 * n_quads + threadIdx.x; id < n_vocab; id += kThreads) {
    bad |= sampling::is_bad(z[id]);
    best = max(best, static_cast<u64>(sampling::rank_key(z[id], id)));
  }
  return best;
}

/// Rules 1 and 2: bias, bans and penalties of this row, into `z`.
__device__ void process(const SampleArguments& arg, const SlotSampling& s, const float* raw, float* z,
                        std::int32_t* counts) {
  for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads) z[id] = raw[id];
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < s.bias_count; ++i) {
      const BiasEntry entry = arg.in.bias[s.bias_begin + i];
      if (entry.id >= 0 && entry.id < arg.n_vocab) z[entry.id] += entry.value;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < s.banned_count; i += kThreads) {
    const std::int32_t id = arg.in.banned[s.banned_begin + i];
    if (id >= 0 && id < arg.n_vocab) z[id] = -INFINITY;
  }
  __syncthreads();
  if (!sampling::has_penalties(s)) return;
  const std::int32_t* history = arg.in.history + static_cast<std::int64_t>(s.history_row) * arg.in.shape.max_seq_len;
  const int length = arg.in.history_lens[s.history_row];
  for (int i = threadIdx.x; i < length; i += kThreads)
    if (history[i] >= 0 && history[i] < arg.n_vocab) atomicAdd(counts + history[i], i < s.prompt_len ? 1 : 0x10001);
  __syncthreads();
  for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads)
    if (const std::int32_t count = counts[id]; count != 0) {
      z[id] = sampling::penalised(z[id], count >> 16, s);
      counts[id] = 0;
    }
  __syncthreads();
}

/// The key of rank `k` (1-based, by count) or the key where the running weight in rank order reaches `target`; radix
/// search over the keys' bytes. Ids with a key below `floor` do not take part.
template <bool ByWeight>
__device__ u64 select_key(const float* z, int n_vocab, float top, float temperature, u64 target, u64 floor, u64* bins) {
  u64 prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
    __syncthreads();
    const u64 mask = shift == 56 ? 0 : ~0ull << (shift + 8);
    for (int id = threadIdx.x; id < n_vocab; id += kThreads) {
      const u64 key = sampling::rank_key(z[id], id);
      if (key < floor || (key & mask) != prefix) continue;
      const u64 amount = ByWeight ? sampling::weight(sampling::probability(z[id], top, temperature)) : 1;
      if (amount > 0) atomicAdd(bins + ((key >> shift) & 0xff), amount);
    }
    __syncthreads();
    // Every thread walks the bins from the top, so all agree.
    int bin = kBins - 1;
    u64 above = 0;
    for (; bin > 0 && above + bins[bin] < target; --bin) above += bins[bin];
    target -= above;
    prefix |= static_cast<u64>(bin) << shift;
    __syncthreads();
  }
  return prefix;
}

/// Rule 7: the first id in id order whose running kept weight exceeds `target`. Threads own contiguous ranges of ids.
template <typename Kept>
__device__ std::int32_t pick(int n_vocab, u64 target, Kept kept, u64* shared_sums, std::int32_t* shared_token) {
  const int per_thread = (n_vocab + kThreads - 1) / kThreads, begin = threadIdx.x * per_thread,
            end = min(begin + per_thread, n_vocab);
  u64 sum = 0;
  for (int id = begin; id < end; ++id) sum += kept(id);
  u64 inclusive = sum;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int d = 1; d < 32; d *= 2) {
    const u64 other = __shfl_up_sync(~0u, inclusive, d);
    if (lane >= d) inclusive += other;
  }
  __syncthreads();
  if (lane == 31) shared_sums[warp] = inclusive;
  __syncthreads();
  u64 before = inclusive - sum;
  for (int w = 0; w < warp; ++w) before += shared_sums[w];
  if (target >= before && target < before + sum) {
    for (int id = begin; id < end; ++id) {
      before += kept(id);
      if (target < before) {
        *shared_token = id;
        break;
      }
    }
  }
  __syncthreads();
  return *shared_token;
}

/// Log probabilities of the chosen token and the top ones, from the raw logits.
__device__ void log_probabilities(const SampleArguments& arg, const SlotSampling& s, const float* raw,
                                  std::int32_t token, SampledRow& out, u64* shared) {
  u64 best = 0;
  for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads)
    best = max(best, static_cast<u64>(sampling::rank_key(raw[id], id)));
  best = block_max(best, shared);
  const float top = raw[sampling::id_of_key(best)];
  u64 total = 0;
  for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads)
    total += sampling::weight(sampling::probability(raw[id], top, 1.0f));
  total = block_sum(total, shared);
  if (threadIdx.x == 0) out.logprob = sampling::log_probability(raw[token], top, total);
  const int n_top = min(min(s.n_logprobs, kMaxLogprobs), arg.n_vocab);
  u64 below = ~0ull;
  for (int i = 0; i < n_top; ++i) {
    u64 next = 0;
    for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads)
      if (const u64 key = sampling::rank_key(raw[id], id); key < below) next = max(next, key);
    below = block_max(next, shared);
    if (threadIdx.x == 0) {
      out.top_ids[i] = sampling::id_of_key(below);
      out.top_logprobs[i] = sampling::log_probability(raw[out.top_ids[i]], top, total);
    }
  }
  if (threadIdx.x == 0) out.n_top = n_top;
}

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleArguments arg) {
  __shared__ u64 shared[kBins];
  __shared__ std::int32_t shared_token;
  __shared__ SampledRow result;
  let_successor_start();
  wait_for_predecessor();
  const int row = blockIdx.x;
  const SlotSampling s = arg.in.sampling[row];
  if (row >= *arg.in.n_seqs) return;
  if (threadIdx.x == 0) result = SampledRow{};
  __syncthreads();
  if (s.samples == 0) {
    if (threadIdx.x == 0) arg.out[row] = result;
    return;
  }
  const float* raw = arg.logits + static_cast<std::int64_t>(row) * arg.stride;
  bool bad = false;
  u64 best = scan(raw, arg.n_vocab, bad);
  if (__syncthreads_or(bad)) {
    if (threadIdx.x == 0) {
      result.token = sampling::kTokenBadLogits;
      arg.out[row] = result;
    }
    return;
  }
  const bool plain = s.bias_count == 0 && s.banned_count == 0 && !sampling::has_penalties(s);
  const float* z = raw;
  if (!plain) {
    float* to = arg.processed + static_cast<std::int64_t>(row) * arg.stride;
    process(arg, s, raw, to, arg.counts + static_cast<std::int64_t>(row) * arg.stride);
    z = to;
    best = scan(z, arg.n_vocab, bad);
  }
  best = block_max(best, shared);
  std::int32_t token = sampling::id_of_key(best);
  if (s.temperature > 0.0f) {
    const float top = z[token], t = s.temperature;
    u64 floor = 0;
    if (s.top_k > 0 && s.top_k < arg.n_vocab) floor = select_key<false>(z, arg.n_vocab, top, t, s.top_k, 0, shared);
    const auto weight_of = [&](int id) -> u64 {
      if (sampling::rank_key(z[id], id) < floor) return 0;
      return sampling::weight(sampling::probability(z[id], top, t));
    };
    if (s.top_p < 1.0f) {
      u64 total = 0;
      for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads) total += weight_of(id);
      total = block_sum(total, shared);
      __syncthreads();
      floor = select_key<true>(z, arg.n_vocab, top, t, sampling::top_p_target(s.top_p, total), floor, shared);
    }
    const auto kept = [&](int id) -> u64 {
      if (sampling::rank_key(z[id], id) < floor) return 0;
      const float p = sampling::probability(z[id], top, t);
      return p >= s.min_p ? sampling::weight(p) : 0;
    };
    u64 total = 0;
    for (int id = threadIdx.x; id < arg.n_vocab; id += kThreads) total += kept(id);
    total = block_sum(total, shared);
    const std::int32_t position = arg.in.kv_lens[row];
    if (threadIdx.x == 0) shared_token = token;
    __syncthreads();
    token = pick(arg.n_vocab, sampling::draw(s.seed, position, total), kept, shared, &shared_token);
  }
  if (threadIdx.x == 0) result.token = token;
  if (s.n_logprobs >= 0) log_probabilities(arg, s, raw, token, result, shared);
  __syncthreads();
  auto* to = reinterpret_cast<std::int32_t*>(arg.out + row);
  const auto* from = reinterpret_cast<const std::int32_t*>(&result);
  const int n_words = s.n_logprobs >= 0 ? static_cast<int>(sizeof(SampledRow) / 4) : 3;
  for (int i = threadIdx.x; i < n_words; i += kThreads) to[i] = from[i];
}

}  // namespace

void CudaOps::sample(SampledRow* out, View<const float, 2> logits, int n_vocab, const StepInputs& in) {
  SampleArguments arg{};
  arg.out = out;
  arg.logits = logits.data;
  arg.processed = processed_.as<float>();
  arg.counts = counts_.as<std::int32_t>();
  arg.n_vocab = n_vocab;
  arg.stride = logits.shape[1];
  arg.in = in;
  launch(stream_, std::min(in.shape.max_rows, in.capacity), kThreads, 0, sample_kernel, arg);
}

}  // namespace monograph
