#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "server/connection.h"
#include "server/error_body.h"
#include "server/routes.h"

namespace monograph::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kWorkers = 2;
constexpr int kBacklog = 1024;
constexpr milliseconds kDrainCheck{10};
constexpr milliseconds kLastFlush{1000};   // For the errors of cancelled requests to reach their clients.
constexpr milliseconds kAcceptRetry{100};  // Out of file descriptors: some may close.

tcp::endpoint resolve(asio::io_context& io, const ServerConfig& config) {
  error_code error;
  const auto address = asio::ip::make_address(config.host, error);
  if (!error) return {address, static_cast<unsigned short>(config.port)};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(config.host, std::to_string(config.port), error);
  if (error || found.empty())
    throw Error(ErrorCode::kInvalidArgument,
                "--host " + config.host + ": not an address of this machine: " + error.message(), "host");
  return found.begin()->endpoint();
}

void open_listener(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const ServerConfig& config) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (!error) return;
  std::string why = "cannot listen on " + config.host + ":" + std::to_string(config.port) + ": " + error.message();
  if (error == asio::error::address_in_use) why += "; stop the other program or choose another --port";
  throw Error(ErrorCode::kUnavailable, why, "port");
}

}  // namespace

struct Server::Impl final : Executor {
  Impl(ServerConfig config, const Log& log);
  ~Impl() override;

  void post(std::function<void()> work) override { asio::post(io_, std::move(work)); }
  void post_to_worker(std::function<void()> work) override { asio::post(workers_, std::move(work)); }

  void accept();
  void on_accepted(tcp::socket socket);
  bool make_room();
  void begin_drain(Clock::time_point stop_at);
  void check_drain();
  void cancel_running();
  void finish();
  void wait();

  /// The event loop's thread. It stays awake for a while after its last work, as --spin-us says.
  void run();

  const ServerConfig config_;
  std::atomic<std::int64_t> spin_us_ = 0;
  asio::io_context io_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> keep_running_;
  tcp::acceptor acceptor_{io_};
  asio::steady_timer accept_timer_{io_};
  asio::steady_timer drain_timer_{io_};
  ConnectionHost host_;
  Routes routes_;
  int port_ = 0;
  Tick accept_tick_;
  std::optional<Clock::time_point> stop_at_;
  std::optional<Clock::time_point> flush_until_;

  std::mutex thread_mutex_;  // start() and wait() may come from different threads.
  std::thread thread_;
  asio::thread_pool workers_{kWorkers};
};

Server::Impl::Impl(ServerConfig config, const Log& log)
    : config_(std::move(config)),
      keep_running_(asio::make_work_guard(io_)),
      host_{.config = config_, .log = log},
      routes_(config_, log, *this, [this] { return host_.metrics.text(static_cast<int>(host_.open.size())); }) {
  host_.handle = [this](HttpRequest request, Responder& responder) {
    return routes_.handle(std::move(request), responder);
  };
  open_listener(acceptor_, resolve(io_, config_), config_);
  acceptor_.non_blocking(true);
  port_ = acceptor_.local_endpoint().port();
}

Server::Impl::~Impl() {
  post([this] { begin_drain(Clock::now()); });
  wait();
}

// --- Accepting ---

void Server::Impl::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      on_accepted(std::move(socket));
      return accept();
    }
    if (const auto n = accept_tick_.next())
      host_.log.warning("cannot accept a connection: " + error.message() + " (" + std::to_string(n) + " so far)");
    accept_timer_.expires_after(kAcceptRetry);
    accept_timer_.async_wait([this](error_code cancelled) {
      if (!cancelled) accept();
    });
  });
}

void Server::Impl::on_accepted(tcp::socket socket) {
  if (static_cast<int>(host_.open.size()) >= config_.max_connections) {
    host_.metrics.count_refused_connection();
    if (!make_room()) return;  // Closing tells the client to try another server.
  }
  std::make_shared<Connection>(std::move(socket), host_)->start();
}

// The client that has waited longest without a whole request gives way: slow senders cannot keep others out.
bool Server::Impl::make_room() {
  Connection* oldest = nullptr;
  for (Connection* connection : host_.open)
    if (connection->is_evictable() && (!oldest || connection->since() < oldest->since())) oldest = connection;
  if (oldest) oldest->close();
  return oldest != nullptr;
}

// --- Stopping ---

void Server::Impl::begin_drain(Clock::time_point stop_at) {
  const bool is_first = !stop_at_;
  stop_at_ = is_first ? stop_at : std::min(*stop_at_, stop_at);
  host_.draining = true;
  routes_.drain();
  if (is_first) check_drain();
}

// Looks every few milliseconds, only while stopping.
void Server::Impl::check_drain() {
  const auto any = [&](auto is) { return std::any_of(host_.open.begin(), host_.open.end(), is); };
  const bool is_working = any([](const Connection* connection) { return connection->has_exchange(); });
  if (is_working && Clock::now() >= *stop_at_) cancel_running();
  if (!is_working && !flush_until_) flush_until_ = Clock::now() + kLastFlush;
  const bool is_flushing = any([](const Connection* connection) { return connection->is_flushing(); });
  if (flush_until_ && (!is_flushing || Clock::now() >= *flush_until_)) return finish();
  drain_timer_.expires_after(kDrainCheck);
  drain_timer_.async_wait([this](error_code) { check_drain(); });
}

void Server::Impl::cancel_running() {
  const std::vector<Connection*> all(host_.open.begin(), host_.open.end());
  for (Connection* connection : all) connection->on_deadline();
  if (!flush_until_) flush_until_ = Clock::now() + kLastFlush;
}

void Server::Impl::finish() {
  error_code ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel(ignored);
  const std::vector<Connection*> all(host_.open.begin(), host_.open.end());
  for (Connection* connection : all) connection->close();
  keep_running_.reset();
}

void Server::Impl::run() {
  for (auto awake_until = Clock::now(); !io_.stopped();) {
    const std::size_t n_done = Clock::now() < awake_until ? io_.poll() : io_.run_one();
    if (n_done > 0) awake_until = Clock::now() + std::chrono::microseconds(spin_us_);
  }
}

void Server::Impl::wait() {
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable())
    thread_.join();
  else
    run();  // Never started: only a stop can be waiting here.
  workers_.join();
  // What the workers handed back finds no client any more; its streams are destroyed here, before the engine.
  io_.restart();
  io_.poll();
}

// --- The public face ---

Server::Server(ServerConfig config, const Log& log) : impl_(std::make_unique<Impl>(std::move(config), log)) {}
Server::~Server() = default;

int Server::port() const { return impl_->port_; }

std::string Server::url() const {
  const std::string& host = impl_->config_.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

void Server::start() {
  const std::lock_guard lock(impl_->thread_mutex_);
  impl_->accept();
  impl_->thread_ = std::thread([impl = impl_.get()] { impl->run(); });
}

void Server::set_engine(Engine* engine) {
  impl_->routes_.set_engine(engine);
  impl_->spin_us_ = engine ? engine->spin().count() : 0;
}

void Server::request_stop(milliseconds deadline) {
  impl_->post([impl = impl_.get(), stop_at = Clock::now() + deadline] { impl->begin_drain(stop_at); });
}

void Server::wait() { impl_->wait(); }

}  // namespace monograph::server
