// A command line run in a process of its own, so that signals, exit codes and terminals are real.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace monograph::testing {

/// Generous, so that only a hang reaches it.
inline constexpr std::chrono::seconds kWatchdog{60};

class Child {
 public:
  enum class Input { kEmpty, kPipe, kTerminal };

  /// Runs `monograph args...` with only `environment` of MONOGRAPH_ variables set.
  static Child command(std::vector<std::string> args, Input input = Input::kEmpty,
                       std::vector<std::pair<std::string, std::string>> environment = {});
  /// The same with a terminal as standard error: a person watches.
  static Child watched(std::vector<std::string> args);
  /// Runs `work` and exits with what it gives.
  static Child work(std::function<int()> work);
  Child(Child&& other) noexcept;
  ~Child();  ///< Kills it if it still runs.

  /// Reads until stdout or stderr holds `text`; false if the process ends or the watchdog bites before.
  bool wait_for(const std::string& text);
  /// Reads to the end; the exit code, -signal if a signal ended it, nullopt if the watchdog bites.
  std::optional<int> wait();
  void write(const std::string& text);
  void close_input();
  void signal(int number) const;

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  Child() = default;
  struct Ends {
    int child = -1, parent = -1;
  };
  static Ends pipe_to_parent();
  static Ends terminal();
  static Ends input_ends(Input input);
  static Child start(Ends in, Ends err, const std::function<int()>& work);
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int in_ = -1, out_fd_ = -1, err_fd_ = -1;
  std::string out_, err_;
};

}  // namespace monograph::testing
