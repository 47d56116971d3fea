#include "console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace monograph::app {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

void put(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Console::Console(std::optional<LogLevel> asked, LogLevel least)
    : least_(asked.value_or(least)), transient_(!asked && ::isatty(STDERR_FILENO) == 1), lines_(stderr_sink(least_)) {}

void Console::write(LogLevel level, std::string_view line) {
  if (level >= least_) {
    clear();
    lines_(level, line);
  } else if (transient_ && level == LogLevel::kInfo) {
    // A line that wraps could not be erased.
    put(std::string(kEraseLine).append(line.substr(0, terminal_width() - 1)));
  }
}

void Console::clear() {
  if (transient_) put(kEraseLine);
}

LogSink Console::sink() {
  return [this](LogLevel level, std::string_view line) { write(level, line); };
}

std::function<void(int, std::string_view)> Console::engine_sink() {
  return [this](int level, std::string_view line) {
    write(static_cast<LogLevel>(std::clamp(level, 0, static_cast<int>(LogLevel::kError))), line);
  };
}

}  // namespace monograph::app
