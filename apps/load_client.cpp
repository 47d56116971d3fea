#include "load_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/json.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::string request_text(const std::vector<TokenId>& prompt, int n_tokens) {
  std::string ids;
  for (TokenId id : prompt) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  const std::string body = "{\"prompt\":[" + ids + "],\"max_tokens\":" + std::to_string(n_tokens) +
                           ",\"temperature\":0,\"ignore_eos\":true,\"stream\":true,\"return_token_ids\":true}";
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Tokens that an event of the stream brings.
std::size_t n_tokens_of(std::string_view event) {
  constexpr std::string_view kData = "data: ";
  if (!event.starts_with(kData) || event.ends_with("[DONE]")) return 0;  // also pings
  const Json json = parse_json(event.substr(kData.size()), "an event");
  if (!json.contains("choices") || json["choices"].empty()) return 0;
  const Json& choice = json["choices"][0];
  return choice.contains("token_ids") ? choice["token_ids"].size() : 0;
}

}  // namespace

LoadClient::LoadClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket_ < 0 || ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) ::close(socket_);
    throw Error(ErrorCode::kUnavailable, "cannot connect to 127.0.0.1:" + std::to_string(port) + ": " + why);
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

LoadClient::~LoadClient() { ::close(socket_); }

Timing LoadClient::complete(const std::vector<TokenId>& prompt, int n_tokens) {
  const std::string request = request_text(prompt, n_tokens);
  Timing timing;
  const auto start = Clock::now();
  if (!send(request) || !read_head()) return timing;
  int n_seen = 0;
  for (std::string event; read_event(event);) {
    for (std::size_t n = n_tokens_of(event); n > 0; --n) {
      const double at = us_since(start);
      if (n_seen++ == 0)
        timing.ttft_us = at;
      else
        timing.itl_us.push_back(at - timing.total_us);
      timing.total_us = at;
    }
  }
  timing.failed = n_seen != n_tokens;
  return timing;
}

bool LoadClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool LoadClient::receive() {
  char buffer[16384];
  ssize_t n;
  do n = ::recv(socket_, buffer, sizeof buffer, 0);
  while (n < 0 && errno == EINTR);
  if (n > 0) in_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

/// Takes the head of the response. Only a 200 goes on; the connection is of no use after anything else.
bool LoadClient::read_head() {
  std::size_t end;
  while ((end = in_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return false;
  const bool ok = in_.starts_with("HTTP/1.1 200 ");
  in_.erase(0, end + 4);
  if (!ok) ::shutdown(socket_, SHUT_RDWR);
  return ok;
}

/// One chunk of the body, which is one event; false at the end. The server sends each event as a chunk of its own.
bool LoadClient::read_event(std::string& event) {
  std::size_t line;
  while ((line = in_.find("\r\n")) == std::string::npos)
    if (!receive()) return false;
  const std::size_t size = std::strtoul(in_.c_str(), nullptr, 16);
  while (in_.size() < line + 2 + size + 2)
    if (!receive()) return false;
  event = in_.substr(line + 2, size);
  in_.erase(0, line + 2 + size + 2);
  while (event.ends_with('\n')) event.pop_back();
  return size > 0;
}

}  // namespace monograph::app
