// A request that has arrived, and the way back to its client. No sockets here.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace monograph::server {

struct HttpRequest {
  std::string method;
  std::string path;          ///< Without the query.
  std::string content_type;  ///< Empty if absent.
  std::string content_encoding;
  std::string request_id;  ///< X-Request-Id, empty if absent.
  std::string body;
  bool keep_alive = true;
  bool http_1_0 = false;
};

struct Header {
  std::string name;
  std::string value;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<Header> headers;
  bool close = false;  ///< Say `Connection: close` and do it.
};

/// The way back to one client. Loop thread only. Whatever is written after the client left is dropped.
class Responder {
 public:
  virtual ~Responder() = default;
  /// The whole response. Ends the exchange.
  virtual void send(HttpResponse response) = 0;
  /// Status 200 and text/event-stream; goes out together with the first write().
  virtual void begin_stream(std::vector<Header> headers) = 0;
  /// One event, written at once.
  virtual void write(std::string_view event) = 0;
  /// Ends the stream and the exchange; `close`: the connection too.
  virtual void end_stream(bool close) = 0;
};

/// A response that is not there yet. Destroying it cancels its work; that is what happens when the client leaves.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// The client has waited for `ping_interval`.
  virtual void on_silence() = 0;
  /// The server stops now: answer with an error.
  virtual void on_deadline() = 0;
};

/// Where work runs. Both may be called from any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::function<void()> work) = 0;            ///< On the loop thread.
  virtual void post_to_worker(std::function<void()> work) = 0;  ///< On one of the workers.
};

}  // namespace monograph::server
