#include "tests/schedule_run/schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cache/kv_cache.h"
#include "engine/memory_plan.h"
#include "tests/e2e/support/metrics.h"
#include "tests/schedule_run/requests.h"

namespace monograph::schedule_run {
namespace {

using testing::below;
using testing::one_in;
using testing::Random;

constexpr std::size_t kMostOthers =
    8;  ///< Open at once. Their outputs are long: they grow until somebody is preempted.

EngineConfig base(const World& world) {
  EngineConfig config;
  config.model = world.model;
  config.device = world.device;
  config.activation_dtype = world.dtype == DType::kF32 ? ActivationType::kFloat32 : ActivationType::kBFloat16;
  config.threads = 1;
  config.block_size = world.block_size;
  config.max_seq_len = kMaxSequence;
  config.max_queue = 1'000'000;
  return config;
}

/// `more` blocks beyond those without which the engine does not start.
std::int64_t cache_bytes(const World& world, const EngineConfig& config, int more) {
  const KvCacheShape shape{.n_layers = world.config.n_layers,
                           .n_kv_heads = world.config.n_kv_heads,
                           .head_dim = world.config.head_dim,
                           .block_size = world.block_size,
                           .dtype = world.dtype};
  return (least_blocks(resolve_config(config, world.config)) + more) * shape.bytes_per_block();
}

std::vector<int> draw_ladder(Random& random, int n, int unit, int most) {
  std::vector<int> ladder;
  for (int i = 0; i < n; ++i) ladder.push_back(std::min(unit * (1 + below(random, most / unit)), most));
  std::ranges::sort(ladder);
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  return ladder;
}

void draw_graphs(EngineConfig& config, Random& random) {
  if (one_in(random, 8))
    config.enable_cuda_graph = false;
  else if (one_in(random, 8))
    config.enable_prefill_cuda_graph = false;
  if (!one_in(random, 3)) {
    const int unit = one_in(random, 3) ? 1 : 16;
    config.prefill_capture_buckets = draw_ladder(random, 1 + below(random, 5), unit, kMaxSequence);
  }
  if (one_in(random, 2)) config.decode_capture_buckets = draw_ladder(random, 1 + below(random, 4), 1, config.max_seqs);
  if (!one_in(random, 3)) config.prefill_cuda_graph_max_requests = 1 + below(random, config.max_seqs + 2);
  if (one_in(random, 4)) config.prefill_graph_policy = GraphPolicy::kMeasured;
  config.skip_padding = !one_in(random, 3);
}

class Traffic {
 public:
  Traffic(Engine& engine, std::span<const Request> requests, Random& random)
      : engine_(engine), requests_(requests), random_(random), order_(requests.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[static_cast<std::size_t>(below(random_, static_cast<int>(i)))]);
    constexpr int kCrowds[] = {1, 4, 16, 64, 1 << 20};
    crowd_ = static_cast<std::size_t>(kCrowds[below(random_, 5)]);
    burst_ = one_in(random_, 2) ? 3 : 50;
  }

  void run(const std::function<Request()>& make_other, Counts& counts,
           const std::function<void(std::size_t, const Answer&)>& answered) {
    while (!order_.empty() || !open_.empty()) {
      arrive();
      if (one_in(random_, 2) && others_.size() < std::min(crowd_, kMostOthers))
        others_.push_back(engine_.submit(make_other()));
      if (!others_.empty() && one_in(random_, 12)) let_go(counts);
      if (!order_.empty() && one_in(random_, 4)) continue;
      for (int n = 1 + below(random_, burst_); n > 0 && !open_.empty(); --n) finish(counts, answered);
    }
    while (!others_.empty()) let_go(counts);
    for (const auto& [step, tokens] : steps_) {
      counts.shared_steps += tokens.first + tokens.later > 1;
      counts.mixed_steps += tokens.first > 0 && tokens.later > 0;
    }
  }

 private:
  struct Open {
    std::size_t index;
    ResponseStream stream;
  };
  struct StepTokens {
    int first = 0, later = 0;
  };

  void arrive() {
    for (int n = 1 + below(random_, burst_); n > 0 && !order_.empty() && open_.size() < crowd_; --n) {
      open_.push_back({order_.back(), engine_.submit(requests_[order_.back()])});
      order_.pop_back();
    }
  }

  /// By a cancel or by leaving: while it waits, in its prefill, among its tokens or after them.
  void let_go(Counts& counts) {
    const auto at = others_.begin() + below(random_, static_cast<int>(others_.size()));
    if (one_in(random_, 2)) at->cancel();
    others_.erase(at);
    ++counts.cancelled;
  }

  void finish(Counts& counts, const std::function<void(std::size_t, const Answer&)>& answered) {
    const auto at = open_.begin() + below(random_, static_cast<int>(open_.size()));
    Open open = std::move(*at);
    open_.erase(at);
    Answer answer;
    try {
      answer = take(open.stream, requests_[open.index].n);
    } catch (const Failure& failure) {
      throw Failure("prompt " + std::to_string(open.index) + " " + failure.what());
    }
    count(answer, counts);
    answered(open.index, answer);
  }

  void count(const Answer& answer, Counts& counts) {
    ++counts.answers;
    const auto any = [&](auto holds) { return std::ranges::any_of(answer.prefills, holds); };
    counts.hits += any([](const PrefillInfo& p) { return p.n_reused_tokens > 0; });
    counts.pieces += any([](const PrefillInfo& p) { return p.n_prefill_steps > 1; });
    counts.replayed += !any([](const PrefillInfo& p) { return p.status != PrefillStatus::kReplayed; });
    for (const auto& steps : answer.steps) {
      counts.tokens += static_cast<std::int64_t>(steps.size());
      ++steps_[steps.front()].first;
      for (std::size_t t = 1; t < steps.size(); ++t) ++steps_[steps[t]].later;
    }
  }

  Engine& engine_;
  std::span<const Request> requests_;
  Random& random_;
  std::vector<std::size_t> order_;
  std::size_t crowd_ = 1;
  int burst_ = 1;
  std::vector<Open> open_;
  std::vector<ResponseStream> others_;
  std::map<std::int64_t, StepTokens> steps_;
};

}  // namespace

EngineConfig alone(const World& world) {
  EngineConfig config = base(world);
  config.enable_cuda_graph = false;
  config.enable_prefix_cache = false;
  config.max_seqs = 2;  // siblings
  config.chunk_size = kMaxSequence;
  config.kv_cache_bytes = cache_bytes(world, config, kMaxSequence / world.block_size);
  return config;
}

EngineConfig draw_config(const World& world, Random& random) {
  EngineConfig config = base(world);
  config.max_seqs = one_in(random, 4) ? 1 + below(random, 3) : 4 + below(random, 29);
  if (one_in(random, 3))
    config.max_seq_len = kMaxSequence + below(random, world.config.max_position - kMaxSequence + 1);
  if (!one_in(random, 8)) config.chunk_size = one_in(random, 6) ? 3 + below(random, 14) : 16 + below(random, 300);
  config.enable_chunked_prefill = !one_in(random, 6);
  config.enable_prefix_cache = !one_in(random, 4);
  draw_graphs(config, random);
  const bool gpu = world.device != "cpu";
  if (!gpu) config.threads = 1 + below(random, 2);
  if (gpu && one_in(random, 6)) config.gpu_target = "sm_80";
  if (one_in(random, 2)) config.spin_us = below(random, 300);
  config.audit = one_in(random, 2);
  const int whole = kMaxSequence / world.block_size;
  config.kv_cache_bytes =
      cache_bytes(world, config, one_in(random, 2) ? below(random, 3) : below(random, whole * config.max_seqs));
  return config;
}

std::string text_of(const EngineConfig& c) {
  std::string text;
  const auto add = [&](const char* flag, const std::string& value) {
    text += (text.empty() ? "--" : " --") + std::string(flag) + ' ' + value;
  };
  const auto number = [&](const char* flag, std::optional<std::int64_t> value) {
    if (value) add(flag, std::to_string(*value));
  };
  const auto choice = [&](const char* flag, std::optional<bool> value) {
    if (value) add(flag, *value ? "on" : "off");
  };
  const auto ladder = [&](const char* flag, const std::vector<int>& buckets) {
    std::string list;
    for (int bucket : buckets) list += (list.empty() ? "" : ",") + std::to_string(bucket);
    if (!list.empty()) add(flag, list);
  };
  add("model", c.model);
  add("device", c.device);
  add("activation-dtype", c.activation_dtype == ActivationType::kFloat32 ? "float32" : "bfloat16");
  number("threads", c.threads);
  if (!c.gpu_target.empty()) add("gpu-target", c.gpu_target);
  number("max-seq-len", c.max_seq_len);
  number("max-seqs", c.max_seqs);
  number("chunk-size", c.chunk_size);
  choice("enable-chunked-prefill", c.enable_chunked_prefill);
  choice("enable-prefix-cache", c.enable_prefix_cache);
  number("block-size", c.block_size);
  number("kv-cache-bytes", c.kv_cache_bytes);
  choice("enable-cuda-graph", c.enable_cuda_graph);
  choice("enable-prefill-cuda-graph", c.enable_prefill_cuda_graph);
  number("prefill-cuda-graph-max-requests", c.prefill_cuda_graph_max_requests);
  ladder("prefill-cuda-graph-capture-config", c.prefill_capture_buckets);
  ladder("decode-cuda-graph-capture-config", c.decode_capture_buckets);
  add("prefill-graph-policy", c.prefill_graph_policy == GraphPolicy::kAlways ? "always" : "measured");
  choice("skip-padding", c.skip_padding);
  number("spin-us", c.spin_us);
  choice("audit", c.audit);
  return text;
}

void run_schedule(Engine& engine, std::span<const Request> requests, const std::function<Request()>& make_other,
                  Random& random, Counts& counts, const std::function<void(std::size_t, const Answer&)>& answered) {
  Traffic(engine, requests, random).run(make_other, counts, answered);
  const e2e::Metrics metrics(engine.metrics());
  counts.steps += static_cast<std::int64_t>(metrics.sum("monograph_steps_total"));
  counts.preemptions += static_cast<std::int64_t>(metrics.sum("vllm:num_preemptions_total"));
}

}  // namespace monograph::schedule_run
