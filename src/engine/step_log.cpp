#include "engine/step_log.h"

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "monograph/error.h"

namespace monograph {
namespace {

std::string list(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const std::string& name : names) {
    if (out.size() > 1) out += ',';
    append_json_string(out, name);
  }
  return out + "]";
}

std::string head(std::int64_t step, std::int64_t round, std::size_t n_rows, int n_tokens) {
  return "{\"step\":" + std::to_string(step) + ",\"round\":" + std::to_string(round) +
         ",\"R\":" + std::to_string(n_rows) + ",\"T\":" + std::to_string(n_tokens);
}

std::int64_t microseconds(TimePoint::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

std::string tail(const Freed& freed) {
  std::string out = ",\"freed\":" + list(freed.names);
  if (freed.gone.empty()) return out + "}\n";
  out += ",\"gone\":[";
  for (const GoneCaller& caller : freed.gone) {
    if (&caller != &freed.gone.front()) out += ',';
    out += "{\"id\":" + json_string(caller.name) +
           ",\"at_us\":" + std::to_string(microseconds(caller.let_go.time_since_epoch())) + "}";
  }
  return out + "]}\n";
}

const char* json_bool(bool value) { return value ? "true" : "false"; }

}  // namespace

StepLog::StepLog(const std::string& path) {
  if (path.empty()) return;
  file_.reset(path == "-" ? stderr : std::fopen(path.c_str(), "we"));
  if (!file_)
    throw Error(ErrorCode::kInvalidArgument, "--step-log " + path + ": cannot be opened: " + std::strerror(errno),
                "step-log");
}

std::string StepLog::rows(const StepPlan& step) const {
  std::string out = "[";
  for (const PlannedRow& row : step.rows) {
    if (out.size() > 1) out += ',';
    out += "{\"id\":" + json_string(row.sequence->request_id) + ",\"i\":" + std::to_string(row.sequence->index) +
           ",\"n\":" + std::to_string(row.n_tokens) + ",\"prefix\":" + std::to_string(row.sequence->n_computed) +
           ",\"prefill\":" + json_bool(row.prefill) + ",\"samples\":" + json_bool(row.samples) + "}";
  }
  return out + "]";
}

void StepLog::step(std::int64_t round, const StepPlan& step, const std::string& rows, const StepResult& result,
                   const std::string& failure, TimePoint start, TimePoint done, const Freed& freed) {
  std::string line = head(result.step, round, step.rows.size(), step.n_tokens());
  if (failure.empty())
    line += ",\"bucket\":" + std::to_string(result.bucket) + ",\"replayed\":" + json_bool(result.replayed) +
            ",\"status\":\"" + std::string(to_string(result.status)) + "\"";
  else
    line += ",\"error\":" + json_string(failure);
  char launch[32];
  std::snprintf(launch, sizeof launch, "%.1f", result.launch_us);
  line += ",\"at_us\":" + std::to_string(microseconds(start.time_since_epoch())) +
          ",\"us\":" + std::to_string(microseconds(done - start)) + ",\"launch_us\":" + launch + ",\"rows\":" + rows;
  write(line + tail(freed));
}

void StepLog::freed_only(std::int64_t round, std::int64_t last_step, const Freed& freed) {
  write(head(last_step, round, 0, 0) + ",\"rows\":[]" + tail(freed));
}

void StepLog::write(std::string line) {
  std::fwrite(line.data(), 1, line.size(), file_.get());
  std::fflush(file_.get());
}

}  // namespace monograph
