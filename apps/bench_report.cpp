#include "bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace monograph::app {
namespace {

std::string plain(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", value.get<double>());
  return text;
}

/// One row of many columns reads better top to bottom.
std::string upright(const BenchRow& row) {
  std::string text = "| | |\n| --- | ---: |\n";
  for (const auto& [key, value] : row.items())
    if (!value.is_array()) text += "| " + key + " | " + plain(value) + " |\n";
  return text;
}

std::string markdown(const std::vector<BenchRow>& rows) {
  constexpr std::size_t kMostColumns = 16;
  if (rows.size() == 1 && rows[0].size() > kMostColumns) return upright(rows[0]);
  std::string head = "|", rule = "|", body;
  for (const auto& [key, value] : rows[0].items()) {
    if (value.is_array()) continue;
    head += " " + key + " |";
    rule += value.is_number() ? " ---: |" : " --- |";
  }
  for (const auto& row : rows) {
    body += "|";
    for (const auto& [key, value] : row.items())
      if (!value.is_array()) body += " " + plain(value) + " |";
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out.append(c == '"' ? "\"\"" : std::string(1, c));
  return out + "\"";
}

std::string csv(const std::vector<BenchRow>& rows) {
  std::string text;
  const auto line = [&](auto cell) {
    bool first = true;
    for (const auto& [key, value] : rows[0].items()) {
      if (value.is_array()) continue;
      text.append(first ? "" : ",").append(cell(key));
      first = false;
    }
    text += "\n";
  };
  line([](const std::string& key) { return key; });
  for (const auto& row : rows)
    line([&](const std::string& key) { return row[key].is_string() ? in_quotes(row[key]) : row[key].dump(); });
  return text;
}

}  // namespace

std::string report(const std::vector<BenchRow>& rows, const std::string& form) {
  if (form == "json") return BenchRow(rows).dump(2) + "\n";
  if (rows.empty()) return "";
  return form == "csv" ? csv(rows) : markdown(rows);
}

double percentile(std::vector<double> samples, double percent) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(samples.size())));
  return samples[std::max<std::size_t>(rank, 1) - 1];
}

Stats stats_of(std::vector<double> samples) {
  Stats s;
  if (samples.empty()) return s;
  const auto n = static_cast<double>(samples.size());
  s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  for (double sample : samples) s.stddev += (sample - s.mean) * (sample - s.mean);
  s.stddev = samples.size() > 1 ? std::sqrt(s.stddev / (n - 1)) : 0;
  s.median = percentile(samples, 50);
  s.p10 = percentile(samples, 10);
  s.p90 = percentile(samples, 90);
  s.p99 = percentile(samples, 99);
  return s;
}

}  // namespace monograph::app
