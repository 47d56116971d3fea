#include "server/connection.h"

#include <boost/asio/buffer.hpp>
#include <ctime>

#include "server/error_body.h"

namespace monograph::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t kMaxPipelinedBytes = 64 << 10;  // Beyond, the client waits until its request is answered.
constexpr milliseconds kLinger{2000};
constexpr std::int64_t kSlowBodyBytesPerSecond = 8 << 10;

std::string date_line() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
  return text;
}

std::string chunk(std::string_view data) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  std::string out(size);
  out += data;
  return out += "\r\n";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, ConnectionHost& host)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), host_(host) {}

void Connection::start() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  host_.open.insert(this);
  enter(Phase::kIdle);
  wait_readable();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  host_.open.erase(this);
  release_body();
  error_code ignored;
  timer_.cancel(ignored);
  socket_.close(ignored);
  // Whoever is above us on the stack may be this exchange; it holds itself while it runs.
  exchange_.reset();
}

void Connection::on_deadline() {
  if (const auto exchange = exchange_) exchange->on_deadline();
}

// --- Bytes in ---

void Connection::wait_readable() {
  if (is_waiting_readable_ || phase_ == Phase::kClosed || peer_closed_) return;
  if (in_.size() > kMaxPipelinedBytes && phase_ != Phase::kHeader && phase_ != Phase::kBody) return;
  is_waiting_readable_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->is_waiting_readable_ = false;
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->close();
    self->on_readable();
  });
}

void Connection::on_readable() {
  error_code error;
  const std::size_t n = socket_.read_some(asio::buffer(host_.scratch), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return wait_readable();
  if (error) return on_peer_gone();
  if (phase_ != Phase::kLingering) {
    in_.append(host_.scratch.data(), n);
    process_input();
  }
  wait_readable();
}

// A client that shuts down only its sending side counts as gone: for a generation nobody can tell the two apart.
void Connection::on_peer_gone() {
  peer_closed_ = true;
  if (phase_ == Phase::kFlushing) {
    close_after_ = true;
    return;
  }
  leave();
}

void Connection::leave() {
  if (phase_ == Phase::kWorking) host_.metrics.record(request_.method, request_.path, 499, seconds_since(since_));
  close();
}

// --- Requests ---

void Connection::process_input() {
  if (is_processing_) return;  // Called from a handler; the loop below goes on when it returns.
  is_processing_ = true;
  while (true) {
    if (phase_ == Phase::kIdle && !in_.empty()) begin_request();
    if (phase_ != Phase::kHeader && phase_ != Phase::kBody) break;
    if (!feed_parser()) break;
  }
  is_processing_ = false;
  if (in_.empty()) std::string().swap(in_);
}

void Connection::begin_request() {
  parser_.emplace(host_.config.max_header_bytes, host_.config.max_body_bytes);
  sent_continue_ = false;
  enter(Phase::kHeader);
}

// Returns whether there may be more to do with the bytes at hand.
bool Connection::feed_parser() {
  in_.erase(0, parser_->feed(in_));
  const auto state = parser_->state();
  if (state == HttpParser::State::kHeader) return false;
  if (state == HttpParser::State::kFailed) {
    refuse(parser_->failure_status(), parser_->failure());
    return true;
  }
  if (phase_ == Phase::kHeader) enter(Phase::kBody);
  hold_body();
  if (phase_ != Phase::kBody) return true;  // Refused.
  if (state == HttpParser::State::kDone) {
    dispatch();
    return true;
  }
  if (parser_->wants_continue() && !sent_continue_ && parser_->body_bytes() == 0) {
    sent_continue_ = true;
    send_bytes("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return false;
}

void Connection::hold_body() {
  const std::int64_t bytes = parser_->body_bytes();
  host_.body_bytes += bytes - held_body_bytes_;
  held_body_bytes_ = bytes;
  if (host_.body_bytes > host_.config.max_total_body_bytes)
    refuse(503, "too many request bodies at once; try again later");
}

void Connection::release_body() {
  host_.body_bytes -= held_body_bytes_;
  held_body_bytes_ = 0;
}

void Connection::dispatch() {
  request_ = parser_->take();
  parser_.reset();
  enter(Phase::kWorking);
  is_streaming_ = false;
  HttpRequest for_handler = request_;
  for_handler.body = std::move(request_.body);
  request_.body = {};
  auto exchange = host_.handle(std::move(for_handler), *this);
  if (phase_ == Phase::kWorking) exchange_ = std::move(exchange);
}

void Connection::refuse(int status, std::string why) {
  request_ = {};
  request_.keep_alive = false;
  parser_.reset();
  in_.clear();
  enter(Phase::kWorking);
  send(error_response(http_error(status, std::move(why))));
}

// --- Responses ---

std::string Connection::head(int status, const std::vector<Header>& headers, bool close) const {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out += reason_phrase(status);
  out += "\r\n" + date_line();
  for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
  if (close)
    out += "Connection: close\r\n";
  else if (request_.http_1_0)
    out += "Connection: keep-alive\r\n";
  return out;
}

void Connection::send(HttpResponse response) {
  if (phase_ != Phase::kWorking) return;
  const bool close = response.close || !request_.keep_alive || host_.draining;
  response.headers.push_back({"Content-Type", response.content_type});
  response.headers.push_back({"Content-Length", std::to_string(response.body.size())});
  std::string bytes = head(response.status, response.headers, close) + "\r\n";
  if (request_.method != "HEAD") bytes += response.body;
  send_bytes(bytes);
  finish_response(response.status, close);
}

void Connection::begin_stream(std::vector<Header> headers) {
  if (phase_ != Phase::kWorking) return;
  is_streaming_ = true;
  is_chunked_ = !request_.http_1_0;
  headers.push_back({"Content-Type", "text/event-stream; charset=utf-8"});
  headers.push_back({"Cache-Control", "no-cache"});
  headers.push_back({"X-Accel-Buffering", "no"});  // nginx would hold events back.
  if (is_chunked_) headers.push_back({"Transfer-Encoding", "chunked"});
  stream_head_ = head(200, headers, !request_.keep_alive || !is_chunked_ || host_.draining) + "\r\n";
}

void Connection::write(std::string_view event) {
  if (phase_ != Phase::kWorking) return;
  if (static_cast<std::int64_t>(out_.size() - out_at_) > host_.config.max_unsent_bytes) {
    return drop_slow_reader();
  }
  std::string bytes = std::move(stream_head_);
  stream_head_.clear();
  bytes += is_chunked_ ? chunk(event) : std::string(event);
  send_bytes(bytes);
}

void Connection::drop_slow_reader() {
  host_.metrics.count_dropped_reader();
  if (const auto n = host_.slow_reader_tick.next())
    host_.log.warning("dropped a client that does not read its stream (" + std::to_string(n) + " so far)");
  leave();
}

void Connection::end_stream(bool close) {
  if (phase_ != Phase::kWorking) return;
  if (is_chunked_) send_bytes("0\r\n\r\n");
  finish_response(200, close || !is_chunked_ || !request_.keep_alive || host_.draining);
}

// Straight to the socket if nothing waits before it: no event is held back for the next one.
void Connection::send_bytes(std::string_view bytes) {
  if (phase_ == Phase::kClosed) return;
  if (out_at_ < out_.size()) {
    out_ += bytes;
    return;
  }
  out_.assign(bytes);
  out_at_ = 0;
  last_write_ = Clock::now();
  flush();
}

void Connection::flush() {
  error_code error;
  while (out_at_ < out_.size() && !error) {
    const std::size_t n = socket_.write_some(asio::buffer(out_.data() + out_at_, out_.size() - out_at_), error);
    out_at_ += n;
    if (n > 0) last_write_ = Clock::now();
  }
  if (error && error != asio::error::would_block && error != asio::error::try_again) return leave();
  if (out_at_ < out_.size()) return wait_writable();
  std::string().swap(out_);
  out_at_ = 0;
  if (phase_ == Phase::kFlushing) after_flush();
}

void Connection::wait_writable() {
  arm_timer();
  if (is_waiting_writable_) return;
  is_waiting_writable_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    self->is_waiting_writable_ = false;
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->close();
    self->flush();
  });
}

void Connection::finish_response(int status, bool close) {
  if (phase_ != Phase::kWorking) return;  // The client left while we wrote.
  host_.metrics.record(request_.method, request_.path, status, seconds_since(since_));
  release_body();
  close_after_ = close || peer_closed_;
  is_streaming_ = false;
  enter(Phase::kFlushing);
  exchange_.reset();
  if (out_at_ == out_.size()) after_flush();
}

void Connection::after_flush() {
  if (close_after_) return linger();
  enter(Phase::kIdle);
  process_input();
  wait_readable();
}

// Closing with unread bytes in the socket would reset the connection and might take the answer with it.
void Connection::linger() {
  if (peer_closed_) return close();
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::string().swap(in_);
  enter(Phase::kLingering);
  wait_readable();
}

// --- Time ---

void Connection::enter(Phase phase) {
  phase_ = phase;
  since_ = Clock::now();
  if (phase == Phase::kWorking) last_write_ = since_;
  arm_timer();
}

std::optional<Connection::Clock::time_point> Connection::due() const {
  const ServerConfig& config = host_.config;
  switch (phase_) {
    case Phase::kIdle:
      return since_ + config.idle_timeout;
    case Phase::kHeader:
      return since_ + config.header_timeout;
    case Phase::kBody:
      return since_ + config.body_timeout + milliseconds(parser_->body_bytes() * 1000 / kSlowBodyBytesPerSecond);
    case Phase::kLingering:
      return since_ + kLinger;
    case Phase::kFlushing:
      return last_write_ + config.write_timeout;
    case Phase::kWorking:
      break;
    case Phase::kClosed:
      return std::nullopt;
  }
  if (out_at_ < out_.size()) return last_write_ + config.write_timeout;
  if (config.ping_interval.count() > 0) return last_write_ + config.ping_interval;
  return std::nullopt;
}

// The timer is set anew only when it would fire too late: it looks again when it fires, so events cost it nothing.
void Connection::arm_timer() {
  const auto at = due();
  if (!at || (armed_ && *armed_ <= *at)) return;
  armed_ = at;
  timer_.expires_at(*at);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->phase_ == Phase::kClosed) return;
    self->armed_.reset();
    self->on_timer();
  });
}

void Connection::on_timer() {
  const auto at = due();
  if (at && *at <= Clock::now()) on_due();
  arm_timer();
}

void Connection::on_due() {
  switch (phase_) {
    case Phase::kHeader:
      return refuse(408, "the request header did not arrive in time");
    case Phase::kBody:
      return refuse(408, "the request body did not arrive in time");
    case Phase::kWorking:
      break;
    default:
      return close();
  }
  if (out_at_ == out_.size()) return ping();
  drop_slow_reader();
}

void Connection::ping() {
  last_write_ = Clock::now();
  if (const auto exchange = exchange_) exchange->on_silence();
}

}  // namespace monograph::server
