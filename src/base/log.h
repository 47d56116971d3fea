// The log sink and its rate limiter. The library prints nothing itself: it logs through the sink it is given.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace monograph {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
std::string_view to_string(LogLevel level);

/// Receives whole lines without a newline. May be called from any thread; must not throw.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// A value that is passed to whoever logs; an empty sink drops every line.
class Log {
 public:
  Log() = default;
  explicit Log(LogSink sink) : sink_(std::move(sink)) {}
  void debug(std::string_view line) const { write(LogLevel::kDebug, line); }
  void info(std::string_view line) const { write(LogLevel::kInfo, line); }
  void warning(std::string_view line) const { write(LogLevel::kWarning, line); }
  void error(std::string_view line) const { write(LogLevel::kError, line); }
  void write(LogLevel level, std::string_view line) const {
    if (sink_) sink_(level, line);
  }

 private:
  LogSink sink_;
};

/// Writes "LEVEL line" to stderr, one write per line.
LogSink stderr_sink(LogLevel least = LogLevel::kInfo);

/// Counts every occurrence; says yes for the 1st, 2nd, 4th, 8th ... (SPEC: fallback tick, S-87, S-89).
class Tick {
 public:
  /// Counts one occurrence and returns its number if it should be logged, else 0.
  std::uint64_t next() {
    const std::uint64_t n = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    return (n & (n - 1)) == 0 ? n : 0;
  }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace monograph
