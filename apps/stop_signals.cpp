#include "stop_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"

namespace monograph::app {
namespace {

using Clock = std::chrono::steady_clock;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void raise_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_signals();
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
  quit_fd_ = ::eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0 && quit_fd_ >= 0);
  watcher_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  raise_event(quit_fd_);
  watcher_.join();
  for (int fd : {signal_fd_, stop_fd_, quit_fd_}) ::close(fd);
}

void StopSignals::on_stop(std::function<void(int)> act) {
  const std::lock_guard lock(mutex_);
  act_ = std::move(act);
  if (stopping() && act_) act_(signal_.load());
}

void StopSignals::end_after(std::chrono::milliseconds grace, int exit_code) {
  exit_code_ = exit_code;
  grace_ms_ = grace.count();
}

void StopSignals::first(int signal) {
  signal_ = signal;
  raise_event(stop_fd_);
  const std::lock_guard lock(mutex_);
  if (act_) act_(signal);
}

void StopSignals::watch() {
  Clock::time_point began{};
  for (;;) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {quit_fd_, POLLIN, 0}};
    ::poll(fds, 2, stopping() ? 50 : -1);
    if (fds[1].revents & POLLIN) return;
    if (fds[0].revents & POLLIN) {
      signalfd_siginfo info{};
      if (::read(signal_fd_, &info, sizeof info) != sizeof info) continue;
      // Nothing to save and nobody to tell: the one who asks twice wants it to end now.
      if (stopping()) ::_exit(128 + static_cast<int>(info.ssi_signo));
      began = Clock::now();
      first(static_cast<int>(info.ssi_signo));
    }
    const auto grace = std::chrono::milliseconds(grace_ms_.load());
    if (stopping() && grace.count() > 0 && Clock::now() - began > grace) ::_exit(exit_code_.load());
  }
}

}  // namespace monograph::app
