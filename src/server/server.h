// The HTTP server: one event-loop thread apart from the engine's, two workers for long prompts.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "monograph/engine.h"

namespace monograph::server {

struct ServerConfig {
  std::string host = "127.0.0.1";
  int port = 8000;                ///< 0: any free one; see Server::port().
  std::string version = "0.1.0";  ///< For /version and `system_fingerprint`.

  std::int64_t max_body_bytes = 32 << 20;         ///< Larger ones are refused from the header (413).
  std::int64_t max_total_body_bytes = 512 << 20;  ///< Bodies held at once, over all connections (503).
  int max_header_bytes = 32 << 10;
  int max_connections = 4096;
  std::int64_t max_unsent_bytes = 4 << 20;  ///< A reader that lets more pile up is dropped.
  int inline_body_bytes = 24 << 10;         ///< Longer bodies are parsed and tokenized on a worker.

  std::chrono::milliseconds header_timeout{10'000};  ///< First byte to the end of the header.
  std::chrono::milliseconds body_timeout{30'000};    ///< For the body, plus a second per 8 KiB received.
  std::chrono::milliseconds idle_timeout{75'000};    ///< Between two requests of one connection.
  std::chrono::milliseconds write_timeout{60'000};   ///< A reader that takes nothing for so long is dropped.
  std::chrono::milliseconds ping_interval{15'000};   ///< Comment lines in a silent event stream; 0: none.
  std::chrono::milliseconds stall_after{60'000};     ///< /health answers 503 if the engine is silent for so long.
};

/// Life: construct (binds, so a busy port shows before a model is loaded) → start() → set_engine() once the model is
/// there → request_stop() → wait(). Before set_engine() /health, /v1/models and the rest answer 503 "loading".
class Server {
 public:
  /// Binds and listens. Throws Error(kUnavailable), one line naming host, port and cause, if it cannot.
  Server(ServerConfig config, const Log& log);
  /// Stops at once if still running.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;         ///< The bound port.
  std::string url() const;  ///< "http://127.0.0.1:8000", to print.

  void start();
  /// From any thread, once. The engine must live until wait() has returned.
  void set_engine(Engine* engine);
  /// From any thread (not from a signal handler); returns at once. New work gets 503 and `Connection: close`, what runs
  /// may finish until `deadline` from now, the rest is cancelled with an error. Again with a shorter deadline: ends
  /// sooner.
  void request_stop(std::chrono::milliseconds deadline);
  /// Waits until the loop has ended and every stream is destroyed. Call it before Engine::stop().
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace monograph::server
