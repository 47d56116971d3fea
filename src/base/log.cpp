#include "base/log.h"

#include <unistd.h>

namespace monograph {

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

LogSink stderr_sink(LogLevel least) {
  return [least](LogLevel level, std::string_view line) {
    if (level < least) return;
    std::string text = "monograph ";
    text.append(to_string(level)).append(": ").append(line).push_back('\n');
    // One write per line, so that lines of several threads never mix. A log that cannot be written is dropped.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  };
}

}  // namespace monograph
