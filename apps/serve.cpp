#include "server/server.h"

#include <signal.h>

#include <algorithm>
#include <atomic>

#include "commands.h"
#include "console.h"
#include "monograph/engine.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

using std::chrono::milliseconds;

/// Ctrl-C, and any signal before the server is ready, promises an end within 5 s, so running requests get most of that;
/// SIGTERM drains.
constexpr milliseconds kInterruptDrain{3000}, kInterruptGrace{4500}, kCleanUp{5000};

milliseconds ms(double seconds) { return milliseconds(static_cast<std::int64_t>(seconds * 1000)); }

server::ServerConfig server_config(const ServeSettings& s) {
  server::ServerConfig config;
  config.host = s.host;
  config.port = s.port;
  config.max_connections = s.max_connections;
  config.max_body_bytes = s.max_body_bytes;
  config.ping_interval = ms(s.sse_ping_interval_s);
  return config;
}

struct Ending {
  milliseconds drain;  ///< How long what runs may go on.
  milliseconds grace;  ///< After which the process ends, in whatever state it is.
};

Ending ending(int signal, bool ready, const ServeSettings& s) {
  const milliseconds given = ms(s.shutdown_timeout_s);
  if (!ready) return {milliseconds(0), kInterruptGrace};
  if (signal == SIGINT) return {std::min(given, kInterruptDrain), kInterruptGrace};
  return {given, given + kCleanUp};
}

}  // namespace

int serve(const Settings& settings, StopSignals& signals) {
  Console console(settings.log_level, LogLevel::kInfo);
  const Log log(console.sink());
  server::Server server(server_config(settings.serve), log);  // a busy port shows before a model is loaded
  std::unique_ptr<Engine> engine;
  std::atomic<bool> ready{false};
  server.start();
  signals.on_stop([&](int signal) {
    const Ending end = ending(signal, ready, settings.serve);
    log.info("stopping: running requests may take " + std::to_string(end.drain.count() / 1000) +
             " s; a second signal ends at once");
    signals.end_after(end.grace, kExitOk);
    server.request_stop(end.drain);
  });
  log.info("listening on " + server.url() + ", loading " + settings.engine.model);
  try {
    engine = Engine::load(settings.engine, console.engine_sink(), [&] { return signals.stopping(); });
    server.set_engine(engine.get());
    ready = true;
    log.info("ready: " + server.url());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) {
      signals.on_stop({});
      throw;
    }
  }
  server.wait();
  if (engine) engine->stop(milliseconds(0));
  signals.on_stop({});
  log.info("stopped");
  return kExitOk;
}

}  // namespace monograph::app
