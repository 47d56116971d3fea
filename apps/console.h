// What a command shows on the terminal besides its output.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"

namespace monograph::app {

/// A sink for stderr. Where a person watches and no level was asked for, progress is one line that overwrites itself
/// and goes away; lines of `least` or above stay.
class Console {
 public:
  Console(std::optional<LogLevel> asked, LogLevel least);
  LogSink sink();
  /// The same for Engine::load.
  std::function<void(int, std::string_view)> engine_sink();
  /// Removes the progress line.
  void clear();

 private:
  void write(LogLevel level, std::string_view line);
  LogLevel least_;
  bool transient_;
  LogSink lines_;
};

}  // namespace monograph::app
