#include "line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace monograph::app {

bool LineReader::fill() {
  for (;;) {
    pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    if (fds[1].revents != 0) return false;
    if (fds[0].revents == 0) continue;
    char part[4096];
    const auto n = ::read(STDIN_FILENO, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    buffer_.append(part, static_cast<std::size_t>(n));
    return true;
  }
}

std::optional<std::string> LineReader::line() {
  std::size_t end;
  while ((end = buffer_.find('\n')) == std::string::npos)
    if (!fill()) return std::nullopt;
  std::string text = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return text;
}

std::string LineReader::rest() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

}  // namespace monograph::app
