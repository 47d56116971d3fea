// Lines from standard input that a stop signal can interrupt.
#pragma once
#include <optional>
#include <string>

namespace monograph::app {

class LineReader {
 public:
  /// Stops reading once `stop_fd` is readable.
  explicit LineReader(int stop_fd) : stop_fd_(stop_fd) {}
  /// The next line without its newline; nullopt at the end of the input or on a stop.
  std::optional<std::string> line();
  /// Everything up to the end of the input.
  std::string rest();

 private:
  bool fill();
  int stop_fd_;
  std::string buffer_;
};

}  // namespace monograph::app
