#include "tests/apps/support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/options.h"
#include "commands.h"

namespace monograph::testing {
namespace {

using Clock = std::chrono::steady_clock;

int run_command(const std::vector<std::string>& args,
                const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& [name, value] : process_environment())
    if (name.starts_with("MONOGRAPH_")) ::unsetenv(name.c_str());
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  app::StopSignals signals;
  return app::run(args, signals);
}

}  // namespace

Child::Ends Child::pipe_to_parent() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  return {fds[1], fds[0]};
}

Child::Ends Child::terminal() {
  const int parent = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (parent < 0 || ::grantpt(parent) != 0 || ::unlockpt(parent) != 0) throw std::runtime_error("no terminal");
  return {::open(::ptsname(parent), O_RDWR | O_NOCTTY | O_CLOEXEC), parent};
}

Child::Ends Child::input_ends(Input input) {
  int fds[2];
  switch (input) {
    case Input::kEmpty:
      return {::open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
    case Input::kPipe:
      if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
      return {fds[0], fds[1]};
    case Input::kTerminal:
      return terminal();
  }
  return {};
}

Child Child::start(Ends in, Ends err, const std::function<int()>& work) {
  const Ends out = pipe_to_parent();
  std::fflush(nullptr);  // the child would write it a second time
  Child child;
  child.pid_ = ::fork();
  if (child.pid_ < 0) throw std::runtime_error("fork failed");
  if (child.pid_ == 0) {
    ::dup2(in.child, STDIN_FILENO);
    ::dup2(out.child, STDOUT_FILENO);
    ::dup2(err.child, STDERR_FILENO);
    for (int fd : {in.parent, out.parent, err.parent}) ::close(fd);
    std::exit(work());
  }
  for (int fd : {in.child, out.child, err.child}) ::close(fd);
  child.in_ = in.parent;
  child.out_fd_ = out.parent;
  child.err_fd_ = err.parent;
  return child;
}

Child Child::work(std::function<int()> work) { return start(input_ends(Input::kEmpty), pipe_to_parent(), work); }

Child Child::command(std::vector<std::string> args, Input input,
                     std::vector<std::pair<std::string, std::string>> environment) {
  return start(input_ends(input), pipe_to_parent(), [&] { return run_command(args, environment); });
}

Child Child::watched(std::vector<std::string> args) {
  return start(input_ends(Input::kEmpty), terminal(), [&] { return run_command(args, {}); });
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, -1)),
      out_fd_(std::exchange(other.out_fd_, -1)),
      err_fd_(std::exchange(other.err_fd_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (int fd : {in_, out_fd_, err_fd_})
    if (fd >= 0) ::close(fd);
}

bool Child::read_some(Clock::time_point deadline) {
  pollfd fds[] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};  // an fd of -1 is ignored
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0 || ::poll(fds, 2, static_cast<int>(left)) <= 0) return false;
  for (auto [fd, text] : {std::pair{&out_fd_, &out_}, std::pair{&err_fd_, &err_}}) {
    const pollfd& ready = fd == &out_fd_ ? fds[0] : fds[1];
    if (*fd < 0 || ready.revents == 0) continue;
    char part[4096];
    const auto n = ::read(*fd, part, sizeof part);
    if (n > 0)
      text->append(part, static_cast<std::size_t>(n));
    else
      ::close(std::exchange(*fd, -1));
  }
  return true;
}

bool Child::wait_for(const std::string& text) {
  const auto deadline = Clock::now() + kWatchdog;
  while (out_.find(text) == std::string::npos && err_.find(text) == std::string::npos)
    if (!read_some(deadline)) return false;
  return true;
}

std::optional<int> Child::wait() {
  const auto deadline = Clock::now() + kWatchdog;
  while (out_fd_ >= 0 || err_fd_ >= 0)
    if (!read_some(deadline)) return std::nullopt;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Child::write(const std::string& text) {
  if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the child's input takes nothing");
}

void Child::close_input() { ::close(std::exchange(in_, -1)); }

void Child::signal(int number) const { ::kill(pid_, number); }

}  // namespace monograph::testing
