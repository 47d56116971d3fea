// The knobs of EngineConfig.
#pragma once
#include "base/options.h"
#include "monograph/config.h"

namespace monograph {

inline constexpr std::string_view kModelGroup = "Model";
inline constexpr std::string_view kLimitsGroup = "Limits";
inline constexpr std::string_view kGraphGroup = "Graphs";

/// Adds the three groups; `config` outlives `options`.
void add_engine_options(Options& options, EngineConfig& config);

/// Rules between several knobs, after parse(). Throws Error(kInvalidArgument) naming both as they were spelled.
void check_engine_options(const Options& options, const EngineConfig& config);

}  // namespace monograph
