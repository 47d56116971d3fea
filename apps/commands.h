// One function per command; each gives the exit code. Failures throw Error.
#pragma once
#include <span>
#include <string>

#include "app_options.h"
#include "stop_signals.h"

namespace monograph::app {

inline constexpr int kExitOk = 0, kExitError = 1, kExitOtherStatus = 3, kExitInterrupted = 130;

int serve(const Settings& settings, StopSignals& signals);
int generate(const Settings& settings, StopSignals& signals);
/// `what` is prefill, decode, serve or startup.
int bench(const Settings& settings, const std::string& what, StopSignals& signals);
/// `what` is empty or "graphs".
int inspect(const Settings& settings, const std::string& what);
int plan(const Settings& settings);

/// The tables of one replay (SPEC A.2) as text. Throws Error(kInvalidArgument) naming the flag at fault.
std::string plan_text(const Settings& settings);

/// Runs one command line, without the program's name: picks the command, reads its settings, prints errors.
int run(std::span<const std::string> args, StopSignals& signals);

}  // namespace monograph::app
