// One schedule: an engine of its own with settings that may change no bit, and the order and rate in which requests
// come.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "model/config.h"
#include "monograph/config.h"
#include "tests/schedule_run/answer.h"
#include "tests/support/draw.h"

namespace monograph::schedule_run {

/// All that changes bits, and what the settings are drawn for.
struct World {
  std::string device = "cpu", model;
  DType dtype = DType::kF32;
  int block_size = 8;
  ModelConfig config;  ///< The model's.
};

/// Eager, one request at a time, each prompt in one step, no prefix cache.
EngineConfig alone(const World& world);

/// Drawn from everything else that an EngineConfig has. Each of the longest sequences fits the KV cache alone; often
/// not many more do.
EngineConfig draw_config(const World& world, testing::Random& random);

/// As flags of `monograph serve`.
std::string text_of(const EngineConfig& config);

struct Counts {
  std::int64_t answers = 0, tokens = 0, cancelled = 0;
  std::int64_t hits = 0;      ///< Answers whose prompt began in the prefix cache.
  std::int64_t pieces = 0;    ///< Answers prefilled in several steps.
  std::int64_t replayed = 0;  ///< Answers whose prefill replayed throughout; the others are eager.
  std::int64_t steps = 0, preemptions = 0;
  std::int64_t shared_steps = 0;  ///< Steps that gave several sequences a token,
  std::int64_t mixed_steps = 0;   ///< and those that gave one its first and another a later one.
};

/// Sends every request, in random order and bursts, and others that are let go; calls answered(i, answer) for each.
/// Throws Failure naming the request that ended otherwise than with its last token.
void run_schedule(Engine& engine, std::span<const Request> requests, const std::function<Request()>& make_other,
                  testing::Random& random, Counts& counts,
                  const std::function<void(std::size_t, const Answer&)>& answered);

}  // namespace monograph::schedule_run
