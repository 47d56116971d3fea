// The settings of every command, from command line, environment and file.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/options.h"
#include "monograph/config.h"

namespace monograph::app {

struct ServeSettings {
  std::string host = "127.0.0.1";
  int port = 8000;
  double shutdown_timeout_s = 30;
  double sse_ping_interval_s = 15;
  int max_connections = 4096;
  std::int64_t max_body_bytes = 32 << 20;
};

struct GenerateSettings {
  std::optional<std::string> prompt;
  std::string system;
  bool raw = false;
  std::optional<int> max_tokens;
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
  std::optional<std::int64_t> seed;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string require_status;
};

struct BenchSettings {
  std::vector<int> prompt_lengths;  ///< Empty: a default set that fits the model.
  std::vector<int> batch_sizes = {1, 2, 4, 8};
  int output_tokens = 64;
  int repetitions = 5;
  int n_prompts = 32;
  int concurrency = 8;
  std::string output = "md";                    ///< md, csv, json
  double bandwidth_tb_s = 0, rate_tflop_s = 0;  ///< Ceilings of the device; 0: no floor is given.
};

struct PlanSettings {
  std::vector<int> lengths, prefixes;
  int bucket = 0;  ///< 0: the default ladder's.
  int max_requests = 0;
  int position_factor = 0;
  std::vector<int> scratch;
  std::vector<std::vector<int>> tables;
};

struct Settings {
  EngineConfig engine;
  ServeSettings serve;
  GenerateSettings generate;
  BenchSettings bench;
  PlanSettings plan;
  std::optional<LogLevel> log_level;  ///< Absent: what suits the command.
};

/// The knobs of all commands, bound to `settings`, which outlives them.
Options make_options(Settings& settings);

inline constexpr std::string_view kServerGroup = "Server";
inline constexpr std::string_view kPromptGroup = "Prompt and sampling";
inline constexpr std::string_view kBenchGroup = "Benchmark";
inline constexpr std::string_view kPlanGroup = "Plan";
inline constexpr std::string_view kSettingsGroup = "Settings";

}  // namespace monograph::app
