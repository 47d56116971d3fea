// Reads Prometheus text: enough to ask for the sum of a metric over its labels.
#pragma once
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace monograph::e2e {

class Metrics {
 public:
  explicit Metrics(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t name_end = line.find_first_of("{ "), value = line.rfind(' ');
      sums_[line.substr(0, name_end)] += std::stod(line.substr(value + 1));
    }
  }
  /// Throws if there is no such metric, so that a renamed counter cannot pass as zero.
  double sum(const std::string& name) const {
    const auto found = sums_.find(name);
    if (found == sums_.end()) throw std::out_of_range("no metric " + name);
    return found->second;
  }

 private:
  std::map<std::string, double> sums_;
};

}  // namespace monograph::e2e
