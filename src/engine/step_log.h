// One JSON line per step: what ran together, in which bucket, and whose blocks came back.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "graph/batch.h"

namespace monograph {

class StepLog {
 public:
  /// "": no log; "-": stderr. Throws Error(kInvalidArgument) naming --step-log if the file cannot be opened.
  explicit StepLog(const std::string& path);
  bool enabled() const { return file_ != nullptr; }

  /// The rows as planned; call before the step is committed, which changes their sequences.
  std::string rows(const StepPlan& step) const;
  /// {"step":7,"round":5,"R":2,"T":17,"bucket":32,"replayed":true,"status":"replayed","at_us":9120,"us":812,
  /// "launch_us":14.2,"rows":[...],"freed":[]}; `at_us` is when the step began, on the clock that never jumps;
  /// `launch_us` the host's part, from the plan to everything queued. `failure` replaces the outcome of a
  /// step that threw. "gone" is there when callers let go: [{"id":"a#0","at_us":9300}]; no step that began later holds
  /// that row. Lines that cannot be written are dropped.
  void step(std::int64_t round, const StepPlan& step, const std::string& rows, const StepResult& result,
            const std::string& failure, TimePoint start, TimePoint done, const Freed& freed);
  /// What ended without a step: {"step":7,"round":6,"R":0,"T":0,"rows":[],"freed":["a#0"]}.
  void freed_only(std::int64_t round, std::int64_t last_step, const Freed& freed);

 private:
  void write(std::string line);
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != stderr) std::fclose(file);  // NOLINT(cppcoreguidelines-owning-memory): this is the owner
    }
  };
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace monograph
