#include "server/server.h"

#include <signal.h>

#include <algorithm>

#include "commands.h"
#include "console.h"
#include "monograph/engine.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

using std::chrono::milliseconds;

/// Ctrl-C promises an end within 5 s, so running requests get most of that; SIGTERM drains.
constexpr milliseconds kInterruptDrain{3000}, kInterruptGrace{4800}, kCleanUp{5000};

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

/// The first signal: how long what runs may go on.
milliseconds drain_time(int signal, const ServeSettings& s) {
  const milliseconds given = ms(s.shutdown_timeout_s);
  return signal == SIGINT ? std::min(given, kInterruptDrain) : given;
}

}  // namespace

int serve(const Settings& settings, StopSignals& signals) {
  Console console(settings.log_level, LogLevel::kInfo);
  const Log log(console.sink());
  server::Server server(server_config(settings.serve), log);  // a busy port shows before a model is loaded
  std::unique_ptr<Engine> engine;
  server.start();
  signals.on_stop([&](int signal) {
    const milliseconds drain = drain_time(signal, settings.serve);
    log.info("stopping: running requests may take " + std::to_string(drain.count() / 1000) +
             " s; a second signal ends at once");
    signals.end_after(signal == SIGINT ? kInterruptGrace : drain + kCleanUp, kExitOk);
    server.request_stop(drain);
  });
  log.info("listening on " + server.url() + ", loading " + settings.engine.model);
  try {
    engine = Engine::load(settings.engine, console.engine_sink(), [&] { return signals.stopping(); });
    server.set_engine(engine.get());
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
