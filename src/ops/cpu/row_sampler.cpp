#include "ops/cpu/row_sampler.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ops/sampling.h"

namespace monograph::cpu {
namespace {

bool inside(std::int32_t id, std::size_t n) { return id >= 0 && static_cast<std::size_t>(id) < n; }

}  // namespace

SampledRow RowSampler::sample(std::span<const float> logits, const RowContext& row, const Kernels& kernels) {
  SampledRow out;
  const int n = static_cast<int>(logits.size());
  const RowMaximum raw = kernels.maximum(logits.data(), n);
  if (raw.bad || n == 0) {
    out.token = sampling::kTokenBadLogits;
    return out;
  }
  const bool plain = row.bias.empty() && row.banned.empty() && !sampling::has_penalties(row.settings);
  if (plain && row.settings.temperature == 0.0f) {
    out.token = raw.id;
  } else {
    z_.assign(logits.begin(), logits.end());
    apply_bias(row);
    if (sampling::has_penalties(row.settings)) apply_penalties(row);
    out.token = choose(row, kernels);
  }
  if (row.settings.n_logprobs >= 0) add_logprobs(out, logits, row.settings.n_logprobs, kernels);
  return out;
}

void RowSampler::apply_bias(const RowContext& row) {
  for (const BiasEntry& entry : row.bias)
    if (inside(entry.id, z_.size())) z_[entry.id] += entry.value;
  for (std::int32_t id : row.banned)
    if (inside(id, z_.size())) z_[id] = -std::numeric_limits<float>::infinity();
}

void RowSampler::apply_penalties(const RowContext& row) {
  n_seen_.resize(std::max(n_seen_.size(), z_.size()));
  n_output_.resize(n_seen_.size());
  for (std::size_t i = 0; i < row.history.size(); ++i) {
    const std::int32_t id = row.history[i];
    if (!inside(id, z_.size())) continue;
    ++n_seen_[id];
    if (i >= static_cast<std::size_t>(row.settings.prompt_len)) ++n_output_[id];
  }
  for (std::int32_t id : row.history) {
    if (!inside(id, z_.size()) || n_seen_[id] == 0) continue;
    z_[id] = sampling::penalised(z_[id], n_output_[id], row.settings);
    n_seen_[id] = n_output_[id] = 0;
  }
}

std::int32_t RowSampler::choose(const RowContext& row, const Kernels& kernels) {
  const SlotSampling& s = row.settings;
  const int n = static_cast<int>(z_.size());
  const RowMaximum best = kernels.maximum(z_.data(), n);
  if (s.temperature == 0.0f) return best.id;

  // An id of weight 0 is never drawn and adds nothing to a sum, so it may be left out from the start.
  p_.resize(z_.size());
  kernels.probabilities(p_.data(), z_.data(), n, best.value, s.temperature);
  kept_.clear();
  for (int id = 0; id < n; ++id)
    if (p_[id] >= 0x1p-40f) kept_.push_back({sampling::rank_key(z_[id], id), p_[id]});
  if (s.top_k > 0) keep_top_k(s.top_k);
  if (s.top_p < 1.0f) keep_top_p(s.top_p);

  std::uint64_t total = 0;
  for (Candidate& c : kept_) {
    if (c.p < s.min_p) c.p = 0.0f;
    total += sampling::weight(c.p);
  }
  const std::uint64_t target = sampling::draw(s.seed, row.kv_len, total);
  std::uint64_t sum = 0;
  for (const Candidate& c : kept_) {
    sum += sampling::weight(c.p);
    if (sum > target) return sampling::id_of_key(c.key);
  }
  return best.id;
}

void RowSampler::keep_from(std::uint64_t least_key) {
  std::erase_if(kept_, [&](const Candidate& c) { return c.key < least_key; });
}

void RowSampler::keep_top_k(int k) {
  if (static_cast<std::size_t>(k) >= kept_.size()) return;
  order_ = kept_;
  std::nth_element(order_.begin(), order_.begin() + (k - 1), order_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.key > b.key; });
  keep_from(order_[k - 1].key);
}

// Halves the range that holds the last kept id until it is short, knowing the weight of everything ranked before it.
void RowSampler::keep_top_p(float top_p) {
  const auto before = [](const Candidate& a, const Candidate& b) { return a.key > b.key; };
  const auto weight_of = [](auto begin, auto end) {
    std::uint64_t sum = 0;
    for (; begin != end; ++begin) sum += sampling::weight(begin->p);
    return sum;
  };
  order_ = kept_;
  auto begin = order_.begin(), end = order_.end();
  std::uint64_t missing = sampling::top_p_target(top_p, weight_of(begin, end));
  while (end - begin > 64) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    const std::uint64_t upper = weight_of(begin, middle);
    if (upper >= missing) {
      end = middle;
    } else {
      missing -= upper;
      begin = middle;
    }
  }
  std::sort(begin, end, before);
  for (auto c = begin; c != end; ++c) {
    const std::uint64_t w = sampling::weight(c->p);
    if (w >= missing) return keep_from(c->key);
    missing -= w;
  }
}

void RowSampler::add_logprobs(SampledRow& out, std::span<const float> logits, int n_top, const Kernels& kernels) {
  const int n = static_cast<int>(logits.size());
  const float max = kernels.maximum(logits.data(), n).value;
  p_.resize(logits.size());
  kernels.probabilities(p_.data(), logits.data(), n, max, 1.0f);
  std::uint64_t total = 0;
  for (float p : p_) total += sampling::weight(p);
  out.logprob = sampling::log_probability(logits[out.token], max, total);

  n_top = std::min({n_top, kMaxLogprobs, n});
  std::array<std::uint64_t, kMaxLogprobs> best{};  // descending; no key is 0 or below
  for (int id = 0; id < n && n_top > 0; ++id) {
    const std::uint64_t key = sampling::rank_key(logits[id], id);
    if (key <= best[n_top - 1]) continue;
    int at = n_top - 1;
    for (; at > 0 && best[at - 1] < key; --at) best[at] = best[at - 1];
    best[at] = key;
  }
  out.n_top = n_top;
  for (int i = 0; i < n_top; ++i) {
    out.top_ids[i] = sampling::id_of_key(best[i]);
    out.top_logprobs[i] = sampling::log_probability(logits[out.top_ids[i]], max, total);
  }
}

}  // namespace monograph::cpu
