// `bench`: times of the forward, eager and replayed, of requests through the library, and of requests over HTTP.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "bench_floor.h"
#include "bench_report.h"
#include "commands.h"
#include "console.h"
#include "graph/ladder.h"
#include "lane.h"
#include "load_client.h"
#include "monograph/engine.h"
#include "monograph/error.h"
#include "server/server.h"

namespace monograph::app {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::micro>(b - a).count();
}

/// What every row starts with, named as llama-bench names it where it has the same thing.
BenchRow row_head(const EngineConfig& config, const Lane& lane) {
  BenchRow row;
  row["model"] = std::filesystem::path(config.model).filename().string();
  row["size_mib"] = static_cast<double>(lane.files().file_bytes()) / (1 << 20);
  row["backend"] = lane.device();
  row["type"] = config.activation_dtype == ActivationType::kFloat32 ? "float32" : "bfloat16";
  return row;
}

std::vector<TokenId> random_prompt(int n_tokens, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> ids(static_cast<std::size_t>(n_tokens));
  for (auto& id : ids) id = static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size));
  return ids;
}

/// Time to the first and only token of a request through the library.
double library_ttft_us(Engine& engine, const std::vector<TokenId>& prompt) {
  Request request;
  request.prompt_ids = prompt;
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 1;
  request.sampling.ignore_eos = true;
  const auto start = Clock::now();
  ResponseStream stream = engine.submit(std::move(request));
  double ttft = 0;
  while (const auto event = stream.next()) {
    if (event->token.finish == FinishReason::kError)
      throw Error(ErrorCode::kInternal,
                  "a request of " + std::to_string(prompt.size()) + " tokens failed: " + event->token.error);
    if (event->token.token) ttft = us_between(start, Clock::now());
  }
  return ttft;
}

std::unique_ptr<Engine> load_engine(EngineConfig config, const Settings& settings) {
  Console console(settings.log_level, LogLevel::kWarning);
  config.enable_prefix_cache = false;  // a repeated prompt is to be computed again
  auto engine = Engine::load(config, console.engine_sink());
  console.clear();
  return engine;
}

Log quiet_log(const Settings& settings) { return Log(stderr_sink(settings.log_level.value_or(LogLevel::kWarning))); }

std::vector<int> prompt_lengths(const Settings& settings, int most) {
  std::vector<int> lengths = settings.bench.prompt_lengths;
  if (lengths.empty())
    for (int n : {16, 64, 128, 256, 512, 1024, 2048})
      if (n <= most) lengths.push_back(n);
  for (int n : lengths)
    if (n > most)
      throw Error(ErrorCode::kInvalidArgument,
                  "--prompt-lengths: " + std::to_string(n) + " is above the " + std::to_string(most) +
                      " tokens that one step can hold and leave room for one more in the context");
  return lengths;
}

/// The server of `serve` on a free port of this machine.
class LocalServer {
 public:
  LocalServer(Engine& engine, const Log& log) : server_(config(), log) {
    server_.start();
    server_.set_engine(&engine);
  }
  ~LocalServer() {
    server_.request_stop(std::chrono::milliseconds(0));
    server_.wait();
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  int port() const { return server_.port(); }

 private:
  static server::ServerConfig config() {
    server::ServerConfig config;
    config.port = 0;
    return config;
  }
  server::Server server_;
};

/// Times to the first and only token of prompts of one length, by the way they came in.
struct FirstTokens {
  std::vector<double> library_us, http_us;
};

double http_ttft_us(LoadClient& client, const std::vector<TokenId>& prompt) {
  const Timing timing = client.complete(prompt, 1);
  if (timing.failed)
    throw Error(ErrorCode::kInternal, "a request of " + std::to_string(prompt.size()) + " tokens failed over HTTP");
  return timing.ttft_us;
}

/// Engine first, lane afterwards, so that the model is held once.
std::map<int, FirstTokens> first_tokens(const Settings& settings, const std::vector<int>& lengths) {
  const auto engine = load_engine(settings.engine, settings);
  std::map<int, FirstTokens> times;
  {
    const LocalServer server(*engine, quiet_log(settings));
    LoadClient client(server.port());
    for (int n : lengths) {
      const auto prompt = random_prompt(n, engine->info().vocab_size, 1);
      for (int i = -1; i < settings.bench.repetitions; ++i) {
        const double library = library_ttft_us(*engine, prompt), http = http_ttft_us(client, prompt);
        if (i < 0) continue;
        times[n].library_us.push_back(library);
        times[n].http_us.push_back(http);
      }
    }
  }
  engine->stop(std::chrono::milliseconds(0));
  return times;
}

/// What the steps of one kind took, each in microseconds: on the device, on the host until everything was queued, and
/// on the host in all.
struct StepTimes {
  std::vector<double> device, launch, total;
  StepResult last;
};

template <typename Step>
StepTimes measure_steps(int n, const Step& step) {
  StepTimes times;
  for (int i = -3; i < n; ++i) {
    const auto start = Clock::now();
    times.last = step();
    if (i < 0) continue;  // warms up
    times.total.push_back(us_between(start, Clock::now()));
    times.device.push_back(times.last.device_us);
    times.launch.push_back(times.last.launch_us);
  }
  return times;
}

void add_quantiles(BenchRow& row, const std::string& name, const std::vector<double>& samples) {
  const Stats s = stats_of(samples);
  row[name] = s.median;
  row[name + "_p10"] = s.p10;
  row[name + "_p99"] = s.p99;
}

/// graph_us, eager_us: device time of the step's work; host_us, eager_host_us: host time from a built batch to the
/// launch's return; step_us: the host's whole wait for a replay.
BenchRow prefill_row(const Settings& settings, Lane& lane, int n, const FirstTokens& first) {
  const Batch batch = lane.batch(1, n, 0, true);
  const int repetitions = settings.bench.repetitions;
  const StepTimes graph = measure_steps(repetitions, [&] { return lane.runner().run(batch); });
  const StepTimes eager = measure_steps(repetitions, [&] { return lane.runner().run_eager(batch); });
  BenchRow row = row_head(settings.engine, lane);
  row["test"] = "pp" + std::to_string(n);
  row["n_prompt"] = n;
  row["bucket"] = graph.last.bucket;
  row["status"] = to_string(graph.last.status);
  add_quantiles(row, "eager_us", eager.device);
  add_quantiles(row, "graph_us", graph.device);
  const Ceilings ceilings{settings.bench.bandwidth_tb_s, settings.bench.rate_tflop_s};
  if (ceilings.known()) {
    const double floor = floor_us(lane.files().config(), n, ceilings);
    row["floor_us"] = floor;
    row["percent_of_floor"] = 100 * floor / stats_of(graph.device).median;
  }
  add_quantiles(row, "host_us", graph.launch);
  add_quantiles(row, "eager_host_us", eager.launch);
  add_quantiles(row, "step_us", graph.total);
  add_quantiles(row, "library_ttft_us", first.library_us);
  add_quantiles(row, "http_ttft_us", first.http_us);
  const Stats total = stats_of(graph.total);
  row["avg_ts"] = n * 1e6 / total.mean;
  row["stddev_ts"] = n * 1e6 / total.mean * (total.stddev / total.mean);
  row["samples_us"] = graph.total;
  return row;
}

std::vector<BenchRow> bench_prefill(const Settings& settings) {
  std::vector<int> lengths;
  {
    const auto files = open_files(settings.engine);
    const int context = settings.engine.max_seq_len.value_or(std::min(files->config().max_position, 8192));
    lengths = prompt_lengths(settings, std::min(context - 1, settings.engine.chunk_size.value_or(2048)));
  }
  const auto first = first_tokens(settings, lengths);
  Lane lane(settings.engine, 1, quiet_log(settings));
  std::vector<BenchRow> rows;
  for (int n : lengths) rows.push_back(prefill_row(settings, lane, n, first.at(n)));
  return rows;
}

std::vector<BenchRow> bench_decode(const Settings& settings) {
  const int wanted_context = settings.bench.prompt_lengths.empty() ? 128 : settings.bench.prompt_lengths[0];
  const int most = *std::max_element(settings.bench.batch_sizes.begin(), settings.bench.batch_sizes.end());
  if (most > settings.engine.max_seqs)
    throw Error(ErrorCode::kInvalidArgument, "--batch-sizes: " + std::to_string(most) + " is above --max-seqs " +
                                                 std::to_string(settings.engine.max_seqs));
  Lane lane(settings.engine, most, quiet_log(settings));
  const int context = std::min(wanted_context, lane.max_seq_len() - 1);
  std::vector<BenchRow> rows;
  for (int n : settings.bench.batch_sizes) {
    const Batch batch = lane.batch(n, 1, context, false);
    const int steps = settings.bench.repetitions * 8;  // a step is short
    const StepTimes replays = measure_steps(steps, [&] { return lane.runner().run(batch); });
    const StepTimes eager = measure_steps(steps, [&] { return lane.runner().run_eager(batch); });
    const StepResult& last = replays.last;
    const Stats total = stats_of(replays.total);
    BenchRow row = row_head(settings.engine, lane);
    row["test"] = "tg1 x " + std::to_string(n) + " @ d" + std::to_string(context);
    row["n_seqs"] = n;
    row["bucket"] = last.bucket;
    row["replayed"] = last.replayed;
    add_quantiles(row, "eager_us", eager.device);
    add_quantiles(row, "graph_us", replays.device);
    add_quantiles(row, "host_us", replays.launch);
    add_quantiles(row, "step_us", replays.total);
    row["avg_ts"] = n * 1e6 / total.mean;
    row["stddev_ts"] = n * 1e6 / total.mean * (total.stddev / total.mean);
    row["samples_us"] = replays.total;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Keys as other serving benchmarks name them, in milliseconds.
void add_latency(BenchRow& row, const std::string& name, const std::vector<double>& samples_us) {
  const Stats s = stats_of(samples_us);
  row["mean_" + name + "_ms"] = s.mean / 1000;
  row["median_" + name + "_ms"] = s.median / 1000;
  row["p99_" + name + "_ms"] = s.p99 / 1000;
}

/// Sends each prompt once; as many clients as may run at once, each with a connection of its own.
std::vector<Timing> time_prompts(int port, const std::vector<std::vector<TokenId>>& prompts, const BenchSettings& b) {
  std::vector<Timing> timings(prompts.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < std::min<int>(b.concurrency, static_cast<int>(prompts.size())); ++i)
    clients.emplace_back([&] {
      try {
        LoadClient client(port);
        for (std::size_t at; (at = next++) < prompts.size();)
          timings[at] = client.complete(prompts[at], b.output_tokens);
      } catch (const Error&) {  // What this client had not finished counts as failed.
        return;
      }
    });
  clients.clear();
  return timings;
}

std::vector<BenchRow> bench_serve(const Settings& settings) {
  const BenchSettings& b = settings.bench;
  const auto engine = load_engine(settings.engine, settings);
  const int prompt_tokens = b.prompt_lengths.empty() ? 128 : b.prompt_lengths[0];
  const auto prompts = [&](int n, unsigned seed) {
    std::vector<std::vector<TokenId>> all;
    for (int i = 0; i < n; ++i)
      all.push_back(random_prompt(prompt_tokens, engine->info().vocab_size, seed + static_cast<unsigned>(i)));
    return all;
  };
  std::vector<Timing> timings;
  double seconds = 0;
  {
    const LocalServer server(*engine, quiet_log(settings));
    time_prompts(server.port(), prompts(1, 1u << 31), b);
    const auto start = Clock::now();
    timings = time_prompts(server.port(), prompts(b.n_prompts, 1), b);
    seconds = us_between(start, Clock::now()) / 1e6;
  }

  std::vector<double> ttft, itl, tpot, e2el;
  int completed = 0, output = 0;
  for (const auto& t : timings) {
    if (t.failed) continue;
    ++completed;
    output += t.n_tokens();
    ttft.push_back(t.ttft_us);
    e2el.push_back(t.total_us);
    itl.insert(itl.end(), t.itl_us.begin(), t.itl_us.end());
    if (t.n_tokens() > 1) tpot.push_back((t.total_us - t.ttft_us) / (t.n_tokens() - 1));
  }
  BenchRow row;
  row["model"] = std::filesystem::path(settings.engine.model).filename().string();
  row["input_len"] = prompt_tokens;
  row["max_concurrency"] = b.concurrency;
  row["completed"] = completed;
  row["failed"] = static_cast<int>(timings.size()) - completed;
  row["duration"] = seconds;
  row["total_input"] = completed * prompt_tokens;
  row["total_output"] = output;
  row["request_throughput"] = completed / seconds;
  row["output_throughput"] = output / seconds;
  row["total_token_throughput"] = (output + completed * prompt_tokens) / seconds;
  add_latency(row, "ttft", ttft);
  add_latency(row, "tpot", tpot);
  add_latency(row, "itl", itl);
  add_latency(row, "e2el", e2el);
  engine->stop(std::chrono::milliseconds(0));
  return {row};
}

std::vector<BenchRow> bench_startup(const Settings& settings) {
  std::vector<double> load, first;
  for (int i = 0; i < settings.bench.repetitions; ++i) {
    const auto start = Clock::now();
    const auto engine = load_engine(settings.engine, settings);
    load.push_back(us_between(start, Clock::now()));
    library_ttft_us(*engine, random_prompt(16, engine->info().vocab_size, 1));
    first.push_back(us_between(start, Clock::now()));
    engine->stop(std::chrono::milliseconds(0));
  }
  BenchRow row;
  row["model"] = std::filesystem::path(settings.engine.model).filename().string();
  row["repetitions"] = settings.bench.repetitions;
  row["first_load_us"] = load[0];  // the file may not have been in memory yet
  row["load_us"] = stats_of(load).median;
  row["load_to_first_token_us"] = stats_of(first).median;
  row["samples_us"] = first;
  return {row};
}

}  // namespace

int bench(const Settings& settings, const std::string& what, StopSignals& signals) {
  signals.end_after(std::chrono::milliseconds(1), kExitInterrupted);  // nothing to finish
  std::vector<BenchRow> rows;
  if (what == "prefill")
    rows = bench_prefill(settings);
  else if (what == "decode")
    rows = bench_decode(settings);
  else if (what == "serve")
    rows = bench_serve(settings);
  else if (what == "startup")
    rows = bench_startup(settings);
  else
    throw Error(ErrorCode::kInvalidArgument, "bench: expected one of prefill, decode, serve, startup");
  std::fputs(report(rows, settings.bench.output).c_str(), stdout);
  return kExitOk;
}

}  // namespace monograph::app
