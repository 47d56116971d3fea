#include "server/http_metrics.h"

#include <algorithm>
#include <cstdio>

namespace monograph::server {
namespace {

constexpr std::string_view kRoutes[] = {"/v1/completions",
                                        "/v1/chat/completions",
                                        "/generate",
                                        "/v1/models",
                                        "/tokenize",
                                        "/detokenize",
                                        "/apply-template",
                                        "/health",
                                        "/livez",
                                        "/readyz",
                                        "/metrics",
                                        "/version",
                                        "/ping"};
constexpr std::string_view kMethods[] = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE"};

template <typename List>
std::string known(const List& list, std::string_view text) {
  const bool is_known = std::find(std::begin(list), std::end(list), text) != std::end(list);
  return is_known ? std::string(text) : "other";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

void append_header(std::string& out, const char* name, const char* type, const char* help) {
  out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void append_simple(std::string& out, const char* name, const char* type, const char* help, std::int64_t value) {
  append_header(out, name, type, help);
  out += std::string(name) + " " + std::to_string(value) + "\n";
}

}  // namespace

void HttpMetrics::record(std::string_view method, std::string_view path, int status, double seconds) {
  const std::string route = known(kRoutes, path);
  ++requests_[{route, known(kMethods, method), status}];
  Durations& durations = durations_[route];
  const auto edge = std::lower_bound(kEdges.begin(), kEdges.end(), seconds);
  ++durations.buckets[static_cast<std::size_t>(edge - kEdges.begin())];
  ++durations.n;
  durations.sum += seconds;
}

std::string HttpMetrics::text(int n_connections) const {
  std::string out;
  append_header(out, "http_requests_total", "counter", "Requests answered; status 499: the client left first.");
  for (const auto& [key, count] : requests_) {
    const auto& [handler, method, status] = key;
    out += "http_requests_total{handler=\"" + handler + "\",method=\"" + method + "\",status=\"";
    out += std::to_string(status) + "\"} " + std::to_string(count) + "\n";
  }
  append_header(out, "http_request_duration_seconds", "histogram", "From the request's last byte to its answer's.");
  for (const auto& [handler, durations] : durations_) {
    const std::string series = "http_request_duration_seconds";
    std::int64_t below = 0;
    for (std::size_t i = 0; i <= kEdges.size(); ++i) {
      below += durations.buckets[i];
      const std::string edge = i < kEdges.size() ? number(kEdges[i]) : "+Inf";
      out += series + "_bucket{handler=\"" + handler + "\",le=\"" + edge + "\"} " + std::to_string(below) + "\n";
    }
    out += series + "_sum{handler=\"" + handler + "\"} " + number(durations.sum) + "\n";
    out += series + "_count{handler=\"" + handler + "\"} " + std::to_string(durations.n) + "\n";
  }
  append_simple(out, "monograph_http_connections", "gauge", "Open connections.", n_connections);
  append_simple(out, "monograph_http_dropped_readers_total", "counter", "Clients dropped because they did not read.",
                n_dropped_readers_);
  append_simple(out, "monograph_http_refused_connections_total", "counter",
                "Connections refused or evicted at the limit.", n_refused_connections_);
  return out;
}

}  // namespace monograph::server
