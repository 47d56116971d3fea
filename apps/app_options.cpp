#include "app_options.h"

#include <array>
#include <limits>

#include "base/engine_options.h"
#include "base/option_values.h"
#include "monograph/sampling.h"
#include "monograph/status.h"

namespace monograph::app {
namespace {

constexpr int kMaxTokens = 1 << 24;

std::string as_is(const std::string& text, const std::string&) { return text; }

auto whole(std::int64_t least, std::int64_t most) {
  return [=](const std::string& text, const std::string& knob) {
    // Narrows to the field's type; the limits fit it.
    return static_cast<int>(parse_int(text, knob, least, most));
  };
}

auto number(double least, double most) {
  return [=](const std::string& text, const std::string& knob) { return parse_number(text, knob, least, most); };
}

auto list(int least, int most) {
  return [=](const std::string& text, const std::string& knob) { return parse_int_list(text, knob, least, most); };
}

/// Adds the knobs of one group.
class Group {
 public:
  Group(Options& options, std::string_view name) : options_(options), name_(name) {}
  Group& add(const char* name, const char* argument, const char* help, Knob::Set set, bool common = true) {
    options_.add({name, argument, help, std::string(name_), std::move(set), common});
    return *this;
  }

 private:
  Options& options_;
  std::string_view name_;
};

void add_server_group(Options& options, ServeSettings& s) {
  Group(options, kServerGroup)
      .add("host", "ADDRESS", "address to listen on (default 127.0.0.1)", store(s.host, as_is))
      .add("port", "N", "port; 0 takes a free one (default 8000)", store(s.port, whole(0, 65535)))
      .add("shutdown-timeout", "SECONDS", "how long running requests may go on after SIGTERM (default 30)",
           store(s.shutdown_timeout_s, number(0, 86400)))
      .add("sse-ping-interval", "SECONDS", "comment lines in a silent stream; 0: none (default 15)",
           store(s.sse_ping_interval_s, number(0, 86400)), false)
      .add("max-connections", "N", "connections at once (default 4096)", store(s.max_connections, whole(1, 1 << 20)),
           false)
      .add("max-body-bytes", "SIZE", "largest request body (default 32M)", store(s.max_body_bytes, parse_bytes), false);
}

std::string checked_status(const std::string& text, const std::string& knob) {
  std::array<std::string_view, kPrefillStatusCount> names;
  for (int i = 0; i < kPrefillStatusCount; ++i) names[i] = to_string(static_cast<PrefillStatus>(i));
  parse_choice(text, knob, names);
  return text;
}

void add_prompt_group(Options& options, GenerateSettings& g) {
  const auto seed = [](const std::string& text, const std::string& knob) {
    return parse_int(text, knob, 0, std::numeric_limits<std::int64_t>::max());
  };
  Group(options, kPromptGroup)
      .add("prompt", "TEXT", "the prompt; - reads it from standard input; without it: a chat", store(g.prompt, as_is))
      .add("system", "TEXT", "system message of the chat", store(g.system, as_is))
      .add("raw", "", "give the prompt to the model as it is, without chat template", store(g.raw, parse_bool))
      .add("max-tokens", "N", "most tokens to write (default 512)", store(g.max_tokens, whole(1, kMaxTokens)))
      .add("temperature", "X", "0: always the likeliest token (default: the model's, else 1)",
           store(g.temperature, number(0, 100)))
      .add("top-p", "X", "least probability mass to choose from (default: the model's, else 1)",
           store(g.top_p, number(0.000001, 1)))
      .add("top-k", "N", "likeliest tokens to choose from; 0: all", store(g.top_k, whole(0, kMaxTokens)), false)
      .add("min-p", "X", "least probability relative to the likeliest", store(g.min_p, number(0, 1)), false)
      .add("repetition-penalty", "X", "above 1: fewer repetitions", store(g.repetition_penalty, number(0.01, 10)),
           false)
      .add("presence-penalty", "X", "-2..2", store(g.presence_penalty, number(-2, 2)), false)
      .add("frequency-penalty", "X", "-2..2", store(g.frequency_penalty, number(-2, 2)), false)
      .add("seed", "N", "same seed, same text (default: picked and shown)", store(g.seed, seed))
      .add(
          "stop", "TEXT", "end before this text; may be repeated",
          [&g](std::span<const std::string> values, const std::string&) {
            g.stop.assign(values.begin(), values.end());
          },
          false)
      .add("ignore-eos", "", "go on after the model's end token", store(g.ignore_eos, parse_bool), false)
      .add("require-status", "STATUS", "exit with 3 unless prefill_cuda_graph_status is this",
           store(g.require_status, checked_status), false);
}

void add_bench_group(Options& options, BenchSettings& b) {
  const auto output = [](const std::string& text, const std::string& knob) {
    constexpr std::array<std::string_view, 3> kForms = {"md", "csv", "json"};
    return std::string(kForms[parse_choice(text, knob, kForms)]);
  };
  Group(options, kBenchGroup)
      .add("prompt-lengths", "LIST", "tokens per prompt (default 16,64,128,256,512,1024,2048)",
           store(b.prompt_lengths, list(1, kMaxTokens)))
      .add("batch-sizes", "LIST", "sequences decoding together (default 1,2,4,8)", store(b.batch_sizes, list(1, 1024)))
      .add("output-tokens", "N", "tokens written per request (default 64)",
           store(b.output_tokens, whole(1, kMaxTokens)))
      .add("repetitions", "N", "measurements of each, after one warm-up (default 5)",
           store(b.repetitions, whole(1, 1000)))
      .add("num-prompts", "N", "requests of bench serve (default 32)", store(b.n_prompts, whole(1, 1 << 20)))
      .add("concurrency", "N", "requests at once of bench serve (default 8)", store(b.concurrency, whole(1, 1024)))
      .add("bandwidth", "TB/S", "what the device reads, for the floor of bench prefill; bench_limits measures it",
           store(b.bandwidth_tb_s, number(0, 1000)), false)
      .add("rate", "TFLOP/S", "its products of matrices in the activations' type, likewise",
           store(b.rate_tflop_s, number(0, 1e6)), false)
      .add("output", "FORM", "md, csv or json (default md)", store(b.output, output));
}

/// "7,2/5": rows between slashes.
std::vector<std::vector<int>> block_tables(const std::string& text, const std::string& knob) {
  std::vector<std::vector<int>> rows;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find('/', start), text.size());
    rows.push_back(parse_int_list(text.substr(start, end - start), knob, 1, std::numeric_limits<int>::max()));
    start = end + 1;
  }
  return rows;
}

void add_plan_group(Options& options, PlanSettings& p) {
  Group(options, kPlanGroup)
      .add("lengths", "LIST", "new tokens of each sequence", store(p.lengths, list(1, 65536)))
      .add("prefixes", "LIST", "tokens each has in the cache (default 0 each)", store(p.prefixes, list(0, kMaxTokens)))
      .add("bucket", "N", "token capacity C (default: the ladder's smallest that fits)",
           store(p.bucket, whole(1, 65536)))
      .add("max-requests", "N", "sequences a replay can carry, Bmax (default: as many as lengths)",
           store(p.max_requests, whole(1, 1024)))
      .add("position-factor", "N", "ints per token of explicit position ids (default 0)",
           store(p.position_factor, whole(0, 16)))
      .add("tables", "LISTS", "block ids of each sequence, as 7,2/5 (default: counted up from 1)",
           store(p.tables, block_tables))
      .add("scratch", "LIST", "the sentinel's block ids (default: the next free ones)",
           store(p.scratch, list(1, std::numeric_limits<int>::max())));
}

}  // namespace

Options make_options(Settings& settings) {
  Options options;
  add_engine_options(options, settings.engine);
  add_server_group(options, settings.serve);
  add_prompt_group(options, settings.generate);
  add_bench_group(options, settings.bench);
  add_plan_group(options, settings.plan);
  const auto level = [](const std::string& text, const std::string& knob) {
    constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};
    return static_cast<LogLevel>(parse_choice(text, knob, kLevels));
  };
  Group(options, kSettingsGroup)
      .add("log-level", "LEVEL", "debug, info, warning or error", store(settings.log_level, level));
  return options;
}

}  // namespace monograph::app
