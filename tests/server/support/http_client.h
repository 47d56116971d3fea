// A blocking HTTP client of few lines, so that the bytes on the wire are the test's own.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace monograph::test {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< Names in lower case.
  std::string body;                            ///< Chunks joined.
  Json json() const { return parse_json(body, "answer"); }
  std::string header(const std::string& name) const;
  /// The payloads of the `data:` lines.
  std::vector<std::string> events() const;
};

class Client {
 public:
  /// `receive_bytes`: the size of the socket's buffer, 0 for the system's.
  explicit Client(int port, int receive_bytes = 0);
  ~Client();
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), pending_(std::move(other.pending_)) {}
  Client(const Client&) = delete;

  void send(std::string_view bytes);
  /// Sends a request with a JSON body; `extra` are header lines with their CRLF.
  void post(const std::string& path, const std::string& body, const std::string& extra = "");
  void get(const std::string& path, const std::string& extra = "");
  /// Reads one response; throws after ten silent seconds or at an early end.
  Answer read(bool is_head = false);
  /// Reads until `text` has arrived; returns everything before and with it.
  std::string read_until(std::string_view text);
  /// True if the server closes the connection (within ten seconds).
  bool is_closed();
  void close();
  void shut_down_sending();

 private:
  bool fill();
  std::string take(std::size_t n);
  std::string read_chunks();
  int socket_ = -1;
  std::string pending_;
};

/// One request on its own connection.
Answer post(int port, const std::string& path, const std::string& body, const std::string& extra = "");
Answer get(int port, const std::string& path);

}  // namespace monograph::test
