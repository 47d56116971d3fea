#include "tests/server/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace monograph::test {
namespace {

constexpr int kPatienceSeconds = 10;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(lower(name));
  return found == headers.end() ? "" : found->second;
}

std::vector<std::string> Answer::events() const {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    if (end == std::string::npos) throw std::runtime_error("event without an end: " + body.substr(at));
    const std::string event = body.substr(at, end - at);
    if (event.rfind("data: ", 0) == 0) out.push_back(event.substr(6));
    at = end + 2;
  }
  return out;
}

Client::Client(int port, int receive_bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  timeval patience{kPatienceSeconds, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Client::shut_down_sending() { ::shutdown(socket_, SHUT_WR); }

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) throw std::runtime_error(std::string("send: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Client::post(const std::string& path, const std::string& body, const std::string& extra) {
  send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(body.size()) + "\r\n" + extra + "\r\n" + body);
}

void Client::get(const std::string& path, const std::string& extra) {
  send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + extra + "\r\n");
}

bool Client::fill() {
  char buffer[65536];
  const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
  if (n < 0 && errno != ECONNRESET) throw std::runtime_error(std::string("recv: ") + std::strerror(errno));
  if (n > 0) pending_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

bool Client::is_closed() {
  while (fill()) {
  }
  return true;
}

std::string Client::take(std::size_t n) {
  while (pending_.size() < n)
    if (!fill()) throw std::runtime_error("connection closed after: " + pending_);
  std::string out = pending_.substr(0, n);
  pending_.erase(0, n);
  return out;
}

std::string Client::read_until(std::string_view text) {
  std::size_t at;
  while ((at = pending_.find(text)) == std::string::npos)
    if (!fill()) throw std::runtime_error("connection closed after: " + pending_);
  return take(at + text.size());
}

std::string Client::read_chunks() {
  std::string body;
  while (true) {
    const std::size_t size = std::stoul(read_until("\r\n"), nullptr, 16);
    body += take(size);
    take(2);
    if (size == 0) return body;
  }
}

Answer Client::read(bool is_head) {
  Answer answer;
  const std::string head = read_until("\r\n\r\n");
  answer.status = std::stoi(head.substr(9, 3));
  for (std::size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const std::size_t end = head.find("\r\n", at);
    const std::size_t colon = head.find(": ", at);
    answer.headers[lower(head.substr(at, colon - at))] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  if (is_head) return answer;
  if (answer.header("transfer-encoding") == "chunked") {
    answer.body = read_chunks();
  } else if (answer.headers.count("content-length")) {
    answer.body = take(std::stoul(answer.header("content-length")));
  } else {
    while (fill()) {
    }
    answer.body = std::exchange(pending_, {});
  }
  return answer;
}

Answer post(int port, const std::string& path, const std::string& body, const std::string& extra) {
  Client client(port);
  client.post(path, body, extra);
  return client.read();
}

Answer get(int port, const std::string& path) {
  Client client(port);
  client.get(path);
  return client.read();
}

}  // namespace monograph::test
