// One client: bytes in, requests out, responses back; timeouts; and the watch for its leaving.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/log.h"
#include "server/http_message.h"
#include "server/http_metrics.h"
#include "server/http_parser.h"
#include "server/server.h"

namespace monograph::server {

class Connection;

/// What all connections of a loop share. Loop thread only.
struct ConnectionHost {
  const ServerConfig& config;
  Log log;
  HttpMetrics metrics;
  bool draining = false;
  std::unordered_set<Connection*> open;
  std::int64_t body_bytes = 0;  ///< Held by all of them.
  std::array<char, 64 << 10> scratch;
  /// Answers through the responder now and returns null, or later through the exchange.
  std::function<std::shared_ptr<Exchange>(HttpRequest, Responder&)> handle;
  Tick slow_reader_tick;
};

/// Sockets are used without waiting: the loop says when one is readable or writable, so an idle client holds no buffer
/// and an event goes out in one system call. Kept alive by its pending waits.
class Connection final : public Responder, public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, ConnectionHost& host);
  void start();
  void close();
  /// Ends a running exchange with an error (the server stops).
  void on_deadline();
  bool has_exchange() const { return phase_ == Phase::kWorking; }
  bool is_flushing() const { return phase_ == Phase::kFlushing; }
  /// Has no whole request: may go when the limit of connections is reached.
  bool is_evictable() const { return phase_ == Phase::kIdle || phase_ == Phase::kHeader; }
  std::chrono::steady_clock::time_point since() const { return since_; }

  void send(HttpResponse response) override;
  void begin_stream(std::vector<Header> headers) override;
  void write(std::string_view event) override;
  void end_stream(bool close) override;

 private:
  enum class Phase { kIdle, kHeader, kBody, kWorking, kFlushing, kLingering, kClosed };
  using Clock = std::chrono::steady_clock;

  void wait_readable();
  void on_readable();
  void on_peer_gone();
  void leave();
  void drop_slow_reader();
  void wait_writable();
  void flush();

  void process_input();
  void begin_request();
  bool feed_parser();
  void hold_body();
  void release_body();
  void dispatch();
  void refuse(int status, std::string why);

  std::string head(int status, const std::vector<Header>& headers, bool close) const;
  void send_bytes(std::string_view bytes);
  void finish_response(int status, bool close);
  void after_flush();
  void linger();

  void enter(Phase phase);
  std::optional<Clock::time_point> due() const;
  void arm_timer();
  void on_timer();
  void on_due();
  void ping();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  ConnectionHost& host_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point since_;       ///< Start of the phase.
  Clock::time_point last_write_;  ///< Last time the client took a byte.
  std::optional<Clock::time_point> armed_;
  bool is_waiting_readable_ = false;
  bool is_waiting_writable_ = false;
  bool is_processing_ = false;
  bool peer_closed_ = false;

  std::string in_;  ///< Received, not parsed.
  std::optional<HttpParser> parser_;
  std::int64_t held_body_bytes_ = 0;
  bool sent_continue_ = false;

  std::string out_;  ///< Not sent yet, from out_at_ on.
  std::size_t out_at_ = 0;
  bool close_after_ = false;

  // Of the request that is being answered.
  HttpRequest request_;  ///< Without its body.
  std::shared_ptr<Exchange> exchange_;
  std::string stream_head_;  ///< Waits for the first event.
  bool is_streaming_ = false;
  bool is_chunked_ = false;
};

}  // namespace monograph::server
