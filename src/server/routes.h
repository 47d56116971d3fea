// Which handler answers a path; the short answers are made here.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "monograph/engine.h"
#include "server/completion_call.h"
#include "server/http_message.h"
#include "server/server.h"

namespace monograph::server {

class Routes {
 public:
  /// `http_metrics` gives the HTTP layer's part of /metrics.
  Routes(const ServerConfig& config, Log log, Executor& executor, std::function<std::string()> http_metrics);

  /// From any thread, once.
  void set_engine(Engine* engine) { engine_.store(engine, std::memory_order_release); }
  /// Loop thread: from now on work is refused.
  void drain() { is_draining_ = true; }

  /// Loop thread. Answers now and returns null, or later through the exchange. Throws nothing.
  std::shared_ptr<Exchange> handle(HttpRequest request, Responder& responder);

 private:
  /// A request on its way through a handler.
  struct Call {
    HttpRequest& request;
    Responder& responder;
    std::shared_ptr<Exchange> exchange;  ///< Set by a handler that answers later.
  };
  struct Route {
    const char* path;
    const char* methods;  ///< For `Allow`.
    void (Routes::*handler)(Call&);
  };
  static const Route* find(const std::string& path);
  void dispatch(Call& call);
  void check_json(const HttpRequest& request) const;
  Engine& need_engine() const;

  void completions(Call& call);
  void chat_completions(Call& call);
  void generate(Call& call);
  void complete(Call& call, Api api);
  void tokenize(Call& call);
  void detokenize(Call& call);
  void apply_template(Call& call);
  void answer_text(Call& call, std::string (*work)(Engine&, std::string_view));
  void models(Call& call);
  void health(Call& call);
  void live(Call& call);
  void metrics(Call& call);
  void version(Call& call);

  const ServerConfig& config_;
  Log log_;
  Executor& executor_;
  std::function<std::string()> http_metrics_;
  std::atomic<Engine*> engine_{nullptr};
  Tick ignored_tick_;
  bool is_draining_ = false;
  const std::int64_t created_;  ///< Unix time of the start, for /v1/models.
};

}  // namespace monograph::server
