// Sampling on the device by the rule of ops/sampling.h, one cluster of CTAs per row. Every sum is an integer, so the
// order in which threads add does not show. The last node of a step: it writes to mapped host memory.
#include "ops/cuda/cluster.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/head_keys.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/sampling.h"

namespace monograph {
namespace {

using cuda::let_successor_start;
using cuda::wait_for_predecessor;
using u64 = unsigned long long;

constexpr int kThreads = 512, kWarps = kThreads / 32, kBins = 2048;

struct SampleArguments {
  SampledRow* out;
  const float* logits;   // [Bmax, V]
  float* processed;      // [Bmax, V]
  std::int32_t* counts;  // [Bmax, V], zero between steps: total in the low half, output occurrences in the high
  const std::uint64_t* best_keys;  // [Bmax, kMultiprocessors]: what the head found, or null
  int n_vocab, stride;
  StepInputs in;
};

__device__ u64 warp_max(u64 x) {
  for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

/// The CTAs that share a row, and where they meet. What one writes for the others goes to places used in turn, so that
/// one barrier between writing and reading is enough.
class Team {
 public:
  struct Shared {
    u64 warps[kWarps], totals[2];
    u64 bins[2][kBins], sums[kBins];
    std::int32_t token;
  };
  __device__ explicit Team(Shared& shared) : shared_(shared) {}

  __device__ int rank() const { return cluster_.rank(); }
  __device__ int size() const { return cluster_.size(); }
  __device__ int thread() const { return rank() * kThreads + static_cast<int>(threadIdx.x); }
  __device__ int n_threads() const { return size() * kThreads; }
  __device__ void barrier() const {
    met_ = true;
    cluster_.sync();
  }
  __device__ bool met() const { return met_; }
  __device__ Shared& shared() const { return shared_; }
  __device__ Shared& shared_of(int rank) const { return cluster_.shared_of(shared_, rank); }

  /// The largest of all threads' values, known to all.
  __device__ u64 max_of(u64 x) {
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) shared_.warps[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < kWarps; ++w) x = max(x, shared_.warps[w]);
    publish(x);
    for (int r = 0; r < size(); ++r) x = max(x, shared_of(r).totals[turn_]);
    return x;
  }

  __device__ u64 sum_of(u64 x) {
    u64 before = 0;
    return sum_of(x, before);
  }
  /// And the sum of the threads before this one.
  __device__ u64 sum_of(u64 x, u64& before) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 inclusive = x;
    for (int d = 1; d < 32; d *= 2)
      if (const u64 other = __shfl_up_sync(~0u, inclusive, d); lane >= d) inclusive += other;
    if (lane == 31) shared_.warps[warp] = inclusive;
    __syncthreads();
    u64 total = 0;
    before = inclusive - x;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += shared_.warps[w];
      total += shared_.warps[w];
    }
    publish(total);
    total = 0;
    for (int r = 0; r < size(); ++r) {
      const u64 part = shared_of(r).totals[turn_];
      if (r < rank()) before += part;
      total += part;
    }
    return total;
  }

 private:
  __device__ void publish(u64 x) {
    turn_ ^= 1;
    if (threadIdx.x == 0) shared_.totals[turn_] = x;
    barrier();
  }

  cuda::Cluster cluster_;
  Shared& shared_;
  int turn_ = 0;
  mutable bool met_ = false;
};

/// This thread's best key; several loads are in flight at once. kRaw: kBadKey if it met a bad logit.
template <bool kRaw>
__device__ u64 scan(const Team& team, const float* z, int n_vocab) {
  u64 best = 0;
  bool bad = false;
  const int n_quads = (reinterpret_cast<std::uintptr_t>(z) & 15) == 0 ? n_vocab / 4 : 0;
#pragma unroll 8
  for (int i = team.thread(); i < n_quads; i += team.n_threads()) {
    const float4 four = reinterpret_cast<const float4*>(z)[i];
    const float v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      bad |= sampling::is_bad(v[j]);
      best = max(best, static_cast<u64>(sampling::rank_key(v[j], 4 * i + j)));
    }
  }
  for (int id = 4 * n_quads + team.thread(); id < n_vocab; id += team.n_threads()) {
    bad |= sampling::is_bad(z[id]);
    best = max(best, static_cast<u64>(sampling::rank_key(z[id], id)));
  }
  return kRaw && bad ? sampling::kBadKey : best;
}

/// Rules 1 and 2: bias, bans and penalties of this row, into `z`.
__device__ void process(const Team& team, const SampleArguments& arg, const SlotSampling& s, const float* raw, float* z,
                        std::int32_t* counts) {
  for (int id = team.thread(); id < arg.n_vocab; id += team.n_threads()) z[id] = raw[id];
  team.barrier();
  if (team.thread() == 0)
    for (int i = 0; i < s.bias_count; ++i) {
      const BiasEntry entry = arg.in.bias[s.bias_begin + i];
      if (entry.id >= 0 && entry.id < arg.n_vocab) z[entry.id] += entry.value;
    }
  team.barrier();
  for (int i = team.thread(); i < s.banned_count; i += team.n_threads()) {
    const std::int32_t id = arg.in.banned[s.banned_begin + i];
    if (id >= 0 && id < arg.n_vocab) z[id] = -INFINITY;
  }
  team.barrier();
  if (!sampling::has_penalties(s)) return;
  const std::int32_t* history = arg.in.history_of(s.history_row);
  const int length = arg.in.history.lens[s.history_row];
  for (int i = team.thread(); i < length; i += team.n_threads())
    if (history[i] >= 0 && history[i] < arg.n_vocab) atomicAdd(counts + history[i], i < s.prompt_len ? 1 : 0x10001);
  team.barrier();
  for (int id = team.thread(); id < arg.n_vocab; id += team.n_threads())
    if (const std::int32_t count = __ldcg(counts + id); count != 0) {
      z[id] = sampling::penalised(z[id], count >> 16, s);
      counts[id] = 0;
    }
  team.barrier();
}

/// Among bins in descending order the first at which the running sum reaches `target`, or the last; `target` loses what
/// lies above. Every warp finds it for itself.
__device__ int find_bin(const u64* bins, int n_bins, u64& target) {
  const int lane = threadIdx.x % 32, per_lane = n_bins / 32, top = n_bins - 1 - lane * per_lane;
  u64 sum = 0;
  for (int i = 0; i < per_lane; ++i) sum += bins[top - i];
  u64 inclusive = sum;
  for (int d = 1; d < 32; d *= 2)
    if (const u64 other = __shfl_up_sync(~0u, inclusive, d); lane >= d) inclusive += other;
  const unsigned reached = __ballot_sync(~0u, inclusive >= target);
  const int owner = reached ? __ffs(static_cast<int>(reached)) - 1 : 31;
  u64 left = target - (inclusive - sum);
  int bin = top;
  if (lane == owner)
    for (; bin > top - per_lane + 1 && bins[bin] < left; --bin) left -= bins[bin];
  target = __shfl_sync(~0u, left, owner);
  return __shfl_sync(~0u, bin, owner);
}

/// The key of rank `k` (1-based, by count) or the key where the running weight in rank order reaches `target`; radix
/// search over the keys, 11 bits at a time. Ids with a key below `floor` do not take part.
template <bool ByWeight>
__device__ u64 select_key(const Team& team, const float* z, int n_vocab, float top, float temperature, u64 target,
                          u64 floor) {
  constexpr int kShifts[] = {53, 42, 32, 21, 10, 0};  // the upper half is the logit, the lower the id
  u64 prefix = 0;
  auto& bins = team.shared().bins;
  for (int i = threadIdx.x; i < 2 * kBins; i += kThreads) bins[i / kBins][i % kBins] = 0;
  team.barrier();
  int buffer = 0, above = 64;
  for (const int shift : kShifts) {
    const u64 mask = above == 64 ? 0 : ~0ull << above;
    const int n_bins = 1 << (above - shift);
    // Ids are small: the upper bits of the lower half are ones in every key.
    if (shift == 21 && n_vocab <= 1 << 21) {
      prefix |= 0x7ffull << 21;
      above = shift;
      continue;
    }
    for (int id = team.thread(); id < n_vocab; id += team.n_threads()) {
      const u64 key = sampling::rank_key(z[id], id);
      if (key < floor || (key & mask) != prefix) continue;
      const u64 amount = ByWeight ? sampling::weight(sampling::probability(z[id], top, temperature)) : 1;
      if (amount > 0) atomicAdd(&bins[buffer][(key >> shift) & (n_bins - 1)], amount);
    }
    team.barrier();
    // Each CTA adds up its share of the bins and hands it to all.
    const int share = n_bins / team.size();
    for (int i = threadIdx.x; i < share; i += kThreads) {
      const int bin = team.rank() * share + i;
      u64 total = 0;
      for (int r = 0; r < team.size(); ++r) total += team.shared_of(r).bins[buffer][bin];
      for (int r = 0; r < team.size(); ++r) team.shared_of(r).sums[bin] = total;
    }
    team.barrier();
    prefix |= static_cast<u64>(find_bin(team.shared().sums, n_bins, target)) << shift;
    above = shift;
    // Nobody reads these bins any more, and the other ones are empty.
    for (int i = threadIdx.x; i < n_bins; i += kThreads) bins[buffer][i] = 0;
    buffer ^= 1;
  }
  team.barrier();
  return prefix;
}

/// Rule 7: the first id in id order whose running kept weight exceeds the draw. Threads own contiguous ranges of ids.
template <typename Kept>
__device__ std::int32_t pick(Team& team, int n_vocab, std::int32_t otherwise, std::uint64_t seed, std::int32_t position,
                             Kept kept) {
  const int per_thread = (n_vocab + team.n_threads() - 1) / team.n_threads(), begin = team.thread() * per_thread,
            end = min(begin + per_thread, n_vocab);
  if (threadIdx.x == 0) team.shared().token = otherwise;
  u64 sum = 0, before = 0;
  for (int id = begin; id < end; ++id) sum += kept(id);
  const u64 target = sampling::draw(seed, position, team.sum_of(sum, before));
  if (target >= before && target < before + sum) {
    for (int id = begin; id < end; ++id) {
      before += kept(id);
      if (target < before) {
        for (int r = 0; r < team.size(); ++r) team.shared_of(r).token = id;
        break;
      }
    }
  }
  team.barrier();
  return team.shared().token;
}

/// Log probabilities of the chosen token and the top ones, from the raw logits.
__device__ void log_probabilities(Team& team, const SampleArguments& arg, const SlotSampling& s, const float* raw,
                                  std::int32_t token, SampledRow& out) {
  const u64 best = team.max_of(scan<true>(team, raw, arg.n_vocab));
  const float top = raw[sampling::id_of_key(best)];
  u64 total = 0;
  for (int id = team.thread(); id < arg.n_vocab; id += team.n_threads())
    total += sampling::weight(sampling::probability(raw[id], top, 1.0f));
  total = team.sum_of(total);
  if (threadIdx.x == 0) out.logprob = sampling::log_probability(raw[token], top, total);
  const int n_top = min(min(s.n_logprobs, kMaxLogprobs), arg.n_vocab);
  u64 below = ~0ull;
  for (int i = 0; i < n_top; ++i) {
    u64 next = 0;
    for (int id = team.thread(); id < arg.n_vocab; id += team.n_threads())
      if (const u64 key = sampling::rank_key(raw[id], id); key < below) next = max(next, key);
    below = team.max_of(next);
    if (threadIdx.x == 0) {
      out.top_ids[i] = sampling::id_of_key(below);
      out.top_logprobs[i] = sampling::log_probability(raw[out.top_ids[i]], top, total);
    }
  }
  if (threadIdx.x == 0) out.n_top = n_top;
}

/// The row's best key: what the head's CTAs left, or from the logits.
__device__ u64 best_of(Team& team, const SampleArguments& arg, int row, const float* raw) {
  if (!arg.best_keys) return team.max_of(scan<true>(team, raw, arg.n_vocab));
  const int lane = threadIdx.x % 32;
  u64 best = 0;
  for (int i = lane; i < cuda::kMultiprocessors; i += 32)
    best = max(best, static_cast<u64>(arg.best_keys[row * cuda::kMultiprocessors + i]));
  return warp_max(best);
}

/// Rules 3 to 7 on the processed logits.
__device__ std::int32_t choose(Team& team, const SampleArguments& arg, const SlotSampling& s, int row, const float* z,
                               u64 best) {
  const std::int32_t first = sampling::id_of_key(best);
  if (s.temperature <= 0.0f) return first;
  const float top = z[first], t = s.temperature;
  u64 floor = 0;
  if (s.top_k > 0 && s.top_k < arg.n_vocab) floor = select_key<false>(team, z, arg.n_vocab, top, t, s.top_k, 0);
  if (s.top_p < 1.0f) {
    u64 total = 0;
    for (int id = team.thread(); id < arg.n_vocab; id += team.n_threads())
      if (sampling::rank_key(z[id], id) >= floor) total += sampling::weight(sampling::probability(z[id], top, t));
    total = team.sum_of(total);
    floor = select_key<true>(team, z, arg.n_vocab, top, t, sampling::top_p_target(s.top_p, total), floor);
  }
  return pick(team, arg.n_vocab, first, s.seed, arg.in.kv_lens[row], [&](int id) -> u64 {
    if (sampling::rank_key(z[id], id) < floor) return 0;
    const float p = sampling::probability(z[id], top, t);
    return p >= s.min_p ? sampling::weight(p) : 0;
  });
}

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleArguments arg) {
  extern __shared__ __align__(16) unsigned char raw_shared[];
  __shared__ SampledRow result;
  let_successor_start();
  Team team(*reinterpret_cast<Team::Shared*>(raw_shared));
  wait_for_predecessor();
  const int row = blockIdx.x / team.size();
  const SlotSampling s = arg.in.sampling[row];
  if (row >= *arg.in.n_seqs) return;
  if (threadIdx.x == 0) result = SampledRow{};
  const bool plain = s.bias_count == 0 && s.banned_count == 0 && !sampling::has_penalties(s);
  if (s.samples != 0) {
    const float* raw = arg.logits + static_cast<std::int64_t>(row) * arg.stride;
    u64 best = best_of(team, arg, row, raw);
    std::int32_t token = sampling::id_of_key(best);
    if (best == sampling::kBadKey) {
      token = sampling::kTokenBadLogits;
    } else if (!plain || s.temperature > 0.0f) {
      const float* z = raw;
      if (!plain) {
        float* to = arg.processed + static_cast<std::int64_t>(row) * arg.stride;
        process(team, arg, s, raw, to, arg.counts + static_cast<std::int64_t>(row) * arg.stride);
        z = to;
        best = team.max_of(scan<false>(team, z, arg.n_vocab));
      }
      token = choose(team, arg, s, row, z, best);
    }
    if (threadIdx.x == 0) result.token = token;
    if (s.n_logprobs >= 0 && token >= 0) log_probabilities(team, arg, s, raw, token, result);
  }
  if (team.rank() == 0) {
    __syncthreads();
    auto* to = reinterpret_cast<std::int32_t*>(arg.out + row);
    const auto* from = reinterpret_cast<const std::int32_t*>(&result);
    const int n_words = s.n_logprobs >= 0 ? static_cast<int>(sizeof(SampledRow) / 4) : 3;
    for (int i = threadIdx.x; i < n_words; i += kThreads) to[i] = from[i];
  }
  if (team.met()) team.barrier();  // others may still read what this CTA holds
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
  const HeadKeys keys = std::exchange(head_keys_, HeadKeys{});
  if (keys.logits == logits.data && keys.n_vocab == n_vocab) arg.best_keys = best_keys_.as<const std::uint64_t>();
  // As many CTAs a row as the chip holds at once, where CTAs can meet.
  const int n_rows = std::min(in.shape.max_rows, in.capacity);
  const int team = !stream_.hopper ? 1 : n_rows <= 32 ? 8 : n_rows <= 64 ? 4 : n_rows <= 128 ? 2 : 1;
  static const bool ready = (cuda::allow_shared(sample_kernel, sizeof(Team::Shared)), true);
  static_cast<void>(ready);
  cuda::launch_clusters(stream_, team, n_rows * team, kThreads, sizeof(Team::Shared), sample_kernel, arg);
}

}  // namespace monograph
