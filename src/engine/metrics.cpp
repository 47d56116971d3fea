#include "engine/metrics.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "monograph/status.h"

namespace monograph {
namespace {

// The edges that published dashboards merge on, and finer ones below 10 ms, where we live.
constexpr double kFirstTokenEdges[] = {0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.015,
                                       0.02,   0.04,  0.06,  0.08,  0.1,   0.25,  0.5,   0.75,  1,    2.5,
                                       5,      7.5,   10,    20,    40,    80,    160,   640,   2560};
constexpr double kTokenEdges[] = {0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.015,
                                  0.025,  0.05,  0.075, 0.1,   0.15,  0.2,   0.3,   0.4,   0.5,  0.75,
                                  1,      2.5,   5,     7.5,   10,    20,    40,    80};
constexpr double kRequestEdges[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2,  0.3, 0.5,
                                    0.8,   1.0,    1.5,   2.0,  2.5,   5.0,  10,  15,   20,  30,
                                    40,    50,     60,    120,  240,   480,  960, 1920, 7680};
constexpr double kCountEdges[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kNEdges[] = {1, 2, 5, 10, 20, 50, 100};
constexpr double kIterationEdges[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

constexpr const char* kPhaseNames[] = {"plan", "build", "run", "commit"};

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

/// Label values escape backslash, quote and newline, as JSON strings do.
std::string label(const char* name, std::string_view value) { return std::string(name) + "=" + json_string(value); }

/// One metric after the other, each with its HELP and TYPE.
class Text {
 public:
  explicit Text(std::string labels) : labels_(std::move(labels)) {}
  void family(const std::string& name, const char* type, const std::string& help) {
    name_ = name;
    out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(double value, const std::string& more = {}) {
    out += name_ + "{" + labels_ + (more.empty() ? "" : ",") + more + "} " + number(value) + "\n";
  }
  void gauge(const std::string& name, double value, const std::string& help) {
    family(name, "gauge", help);
    sample(value);
  }
  void counter(const std::string& name, double value, const std::string& help) {
    family(name + "_total", "counter", help);
    sample(value);
  }
  void histogram(const std::string& name, const Histogram& values, const std::string& help) {
    values.render(out, name, help, labels_);
  }
  std::string out;

 private:
  std::string labels_, name_;
};

void render_requests(Text& text, const MetricValues& v) {
  text.gauge("vllm:num_requests_running", v.n_running, "Sequences that run.");
  text.gauge("vllm:num_requests_waiting", v.n_waiting, "Sequences that wait.");
  text.counter("vllm:prompt_tokens", static_cast<double>(v.prompt_tokens), "Prompt tokens of requests that began.");
  text.counter("vllm:generation_tokens", static_cast<double>(v.generation_tokens), "Tokens generated.");
  text.counter("vllm:num_preemptions", static_cast<double>(v.scheduler.n_preemptions),
               "Sequences sent back to the queue for lack of blocks.");
  text.family("vllm:request_success_total", "counter", "Sequences that ended, by reason.");
  text.sample(static_cast<double>(v.finished_stop), label("finished_reason", "stop"));
  text.sample(static_cast<double>(v.finished_length), label("finished_reason", "length"));
  text.sample(static_cast<double>(v.finished_abort), label("finished_reason", "abort"));
  text.sample(static_cast<double>(v.finished_error), label("finished_reason", "error"));
  text.histogram("vllm:time_to_first_token_seconds", v.time_to_first_token, "From submission to the first token.");
  text.histogram("vllm:inter_token_latency_seconds", v.inter_token_latency, "Between two tokens of a sequence.");
  text.histogram("vllm:e2e_request_latency_seconds", v.e2e_latency, "From submission to the last token.");
  text.histogram("vllm:request_queue_time_seconds", v.queue_time, "From submission to admission.");
  text.histogram("vllm:request_prefill_time_seconds", v.prefill_time, "From admission to the first token.");
  text.histogram("vllm:request_decode_time_seconds", v.decode_time, "From the first token to the last.");
  text.histogram("vllm:request_inference_time_seconds", v.inference_time, "From admission to the last token.");
  text.histogram("vllm:request_prompt_tokens", v.request_prompt_tokens, "Prompt tokens per sequence.");
  text.histogram("vllm:request_generation_tokens", v.request_generation_tokens, "Tokens generated per sequence.");
  text.histogram("vllm:request_max_num_generation_tokens", v.request_params_max_tokens,
                 "Most tokens that a sequence could generate.");
  text.histogram("vllm:request_params_max_tokens", v.request_params_max_tokens, "max_tokens, cut to what fits.");
  text.histogram("vllm:request_params_n", v.request_params_n, "n of each request.");
  text.histogram("vllm:iteration_tokens_total", v.iteration_tokens, "Tokens per step.");
}

void render_cache(Text& text, const MetricValues& v, int block_size) {
  text.gauge("vllm:kv_cache_usage_perc", v.blocks_total > 0 ? static_cast<double>(v.blocks_used) / v.blocks_total : 0,
             "Share of the KV blocks in use, 0 to 1.");
  text.counter("vllm:prefix_cache_queries", static_cast<double>(v.scheduler.n_prefix_queries),
               "Prompt tokens looked up in the prefix cache.");
  text.counter("vllm:prefix_cache_hits", static_cast<double>(v.scheduler.n_prefix_hits),
               "Prompt tokens found in the prefix cache.");
  text.family("vllm:cache_config_info", "gauge", "Size of the KV cache.");
  text.sample(1, label("block_size", std::to_string(block_size)) + "," +
                     label("num_gpu_blocks", std::to_string(v.blocks_total)));
  text.gauge("monograph_kv_blocks_used", v.blocks_used, "KV blocks that sequences hold.");
  text.gauge("monograph_kv_blocks_cached", v.blocks_cached, "Free KV blocks that still hold a prefix.");
  text.gauge("monograph_kv_blocks", v.blocks_total, "KV blocks that sequences can have.");
  text.counter("monograph_broken_kv_accounts", static_cast<double>(v.broken_kv_accounts),
               "Times that the accounts of KV blocks did not add up, and were started afresh.");
}

void render_graphs(Text& text, const MetricValues& v) {
  const RunnerStats& r = v.runner;
  text.counter("monograph_steps", static_cast<double>(r.steps), "Steps run.");
  text.counter("monograph_failed_steps", static_cast<double>(v.failed_steps), "Steps that threw.");
  text.counter("monograph_bad_logits", static_cast<double>(v.scheduler.n_bad_logits),
               "Sequences ended because their logits held a NaN or an infinity.");
  text.family("monograph_step_seconds_total", "counter", "Time of the engine thread, by phase.");
  for (int phase = 0; phase < kStepPhases; ++phase)
    text.sample(v.phase_seconds[phase], label("phase", kPhaseNames[phase]));
  text.counter("monograph_prefill_graph_replays", static_cast<double>(r.prefill_replays),
               "Steps with prefill work that a graph served.");
  text.family("monograph_prefill_graph_fallbacks_total", "counter",
              "Steps with prefill work that ran eager, by reason.");
  for (int status = 0; status < kPrefillStatusCount; ++status) {
    const auto reason = static_cast<PrefillStatus>(status);
    if (reason == PrefillStatus::kReplayed || reason == PrefillStatus::kNotRequested) continue;
    const auto at = static_cast<std::size_t>(status);
    text.sample(at < r.fallbacks.size() ? static_cast<double>(r.fallbacks[at]) : 0, label("reason", to_string(reason)));
  }
  text.counter("monograph_decode_graph_replays", static_cast<double>(r.decode_replays),
               "Decode steps that a graph served.");
  text.counter("monograph_decode_graph_misses", static_cast<double>(r.decode_eager), "Decode steps that ran eager.");
  text.counter("monograph_prefill_graph_padding_tokens", static_cast<double>(r.padding_tokens),
               "Tokens of buckets that no sequence used.");
  text.family("monograph_prefill_graph_bucket_hits_total", "counter", "Replays with prefill work by bucket.");
  std::map<int, std::int64_t> hits = r.bucket_hits;
  for (const auto& captured : v.captures)
    if (captured.family == "extend") hits.try_emplace(captured.bucket, 0);
  for (const auto& [bucket, count] : hits)
    text.sample(static_cast<double>(count), label("bucket", std::to_string(bucket)));
  text.family("monograph_graph_capture_us", "gauge", "Time that capturing took.");
  std::map<std::string, std::int64_t> memory{{"decode", 0}, {"extend", 0}};
  for (const auto& captured : v.captures) {
    text.sample(captured.us, label("family", captured.family) + "," + label("bucket", std::to_string(captured.bucket)));
    memory[captured.family] += captured.bytes;
  }
  text.family("monograph_graph_memory_bytes", "gauge", "Device memory that the graphs hold.");
  for (const auto& [family, bytes] : memory) text.sample(static_cast<double>(bytes), label("family", family));
  text.counter("monograph_sampling_outside_graph", static_cast<double>(v.sampling_outside_graph),
               "Rows that were sampled again outside the graph.");
}

}  // namespace

void Histogram::observe(double value) {
  const auto at = std::ranges::lower_bound(edges_, value) - edges_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += value;
}

void Histogram::render(std::string& out, const std::string& name, const std::string& help,
                       const std::string& labels) const {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " histogram\n";
  std::int64_t n = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    n += counts_[i];
    const std::string edge = i < edges_.size() ? number(edges_[i]) : "+Inf";
    out += name + "_bucket{" + labels + ",le=\"" + edge + "\"} " + std::to_string(n) + "\n";
  }
  out += name + "_sum{" + labels + "} " + number(sum_) + "\n" + name + "_count{" + labels + "} " + std::to_string(n) +
         "\n";
}

MetricValues::MetricValues()
    : time_to_first_token(kFirstTokenEdges),
      inter_token_latency(kTokenEdges),
      e2e_latency(kRequestEdges),
      queue_time(kRequestEdges),
      prefill_time(kRequestEdges),
      decode_time(kRequestEdges),
      inference_time(kRequestEdges),
      request_prompt_tokens(kCountEdges),
      request_generation_tokens(kCountEdges),
      request_params_max_tokens(kCountEdges),
      request_params_n(kNEdges),
      iteration_tokens(kIterationEdges) {}

void Metrics::count_refused(bool queue_full) {
  const std::lock_guard lock(mutex_);
  ++(queue_full ? refused_full_ : refused_invalid_);
}

std::string Metrics::render() const {
  const std::lock_guard lock(mutex_);
  Text text(label("model_name", model_name_) + "," + label("engine", "0"));
  render_requests(text, values_);
  render_cache(text, values_, block_size_);
  render_graphs(text, values_);
  text.family("monograph_requests_refused_total", "counter", "Requests refused at the door.");
  text.sample(static_cast<double>(refused_full_), label("reason", "queue_full"));
  text.sample(static_cast<double>(refused_invalid_), label("reason", "invalid"));
  return text.out;
}

}  // namespace monograph
