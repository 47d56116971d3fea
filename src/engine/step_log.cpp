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
                   const std::string& failure, double us, const std::vector<std::string>& freed) {
  std::string line = head(result.step, round, step.rows.size(), step.n_tokens());
  if (failure.empty())
    line += ",\"bucket\":" + std::to_string(result.bucket) + ",\"replayed\":" + json_bool(result.replayed) +
            ",\"status\":\"" + std::string(to_string(result.status)) + "\"";
  else
    line += ",\"error\":" + json_string(failure);
  line +=
      ",\"us\":" + std::to_string(static_cast<std::int64_t>(us)) + ",\"rows\":" + rows + ",\"freed\":" + list(freed);
  write(line + "}\n");
}

void StepLog::freed_only(std::int64_t round, std::int64_t last_step, const std::vector<std::string>& freed) {
  write(head(last_step, round, 0, 0) + ",\"rows\":[],\"freed\":" + list(freed) + "}\n");
}

void StepLog::write(std::string line) {
  std::fwrite(line.data(), 1, line.size(), file_.get());
  std::fflush(file_.get());
}

}  // namespace monograph
