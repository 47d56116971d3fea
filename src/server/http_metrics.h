// Counters of the HTTP layer, as Prometheus text. Loop thread only, so without locks.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace monograph::server {

class HttpMetrics {
 public:
  /// One request answered, or left by its client (499).
  void record(std::string_view method, std::string_view path, int status, double seconds);
  void count_dropped_reader() { ++n_dropped_readers_; }
  void count_refused_connection() { ++n_refused_connections_; }
  std::string text(int n_connections) const;

 private:
  static constexpr std::array<double, 12> kEdges = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10, 60, 300};
  struct Durations {
    std::array<std::int64_t, kEdges.size() + 1> buckets{};
    std::int64_t n = 0;
    double sum = 0;
  };
  // Keys are route names and known methods, so no client can make them grow.
  std::map<std::tuple<std::string, std::string, int>, std::int64_t> requests_;
  std::map<std::string, Durations> durations_;
  std::int64_t n_dropped_readers_ = 0;
  std::int64_t n_refused_connections_ = 0;
};

}  // namespace monograph::server
