// Rows of measurements as a table, CSV or JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace monograph::app {

/// Keys in the order of their columns. Every row of a report has the same keys; times end in _us, speeds in _ts.
using BenchRow = nlohmann::ordered_json;

/// `form` is md, csv or json. In md each key is a column and each `samples` array is left out.
std::string report(const std::vector<BenchRow>& rows, const std::string& form);

struct Stats {
  double mean = 0, stddev = 0, median = 0, p10 = 0, p90 = 0, p99 = 0;
};
Stats stats_of(std::vector<double> samples);
/// Value at or below which `percent` of the samples lie (nearest rank).
double percentile(std::vector<double> samples, double percent);

}  // namespace monograph::app
