// A completion while it runs: from the body to streams of tokens to the client.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "monograph/engine.h"
#include "server/completion_body.h"
#include "server/completion_call.h"
#include "server/error_body.h"
#include "server/http_message.h"

namespace monograph::server {

/// What completions share. Outlives them.
struct CompletionHost {
  Engine& engine;
  const Log& log;
  Executor& executor;
  Tick& ignored_tick;  ///< Limits the log of ignored fields.
};

/// Loop thread only. Destroying it cancels its sequences.
class Completion final : public Exchange, public std::enable_shared_from_this<Completion> {
 public:
  Completion(const CompletionHost& host, Responder& responder);
  ~Completion() override;

  /// Reads the body and submits; on a worker if it is longer than `inline_bytes`. Failures are answered.
  void start(HttpRequest request, Api api, std::int64_t inline_bytes);

  void on_silence() override;
  void on_deadline() override;

 private:
  /// What a worker hands back.
  struct Submitted {
    CompletionCall call;
    std::string id;
    std::vector<ResponseStream> streams;
  };
  static Submitted submit(Engine& engine, const HttpRequest& request, Api api);
  void start_on_worker(HttpRequest request, Api api);
  void run(Submitted submitted);
  void watch();
  void log_ignored() const;

  void pump();
  void pump_stream(std::size_t prompt_idx);
  void on_event(std::size_t prompt_idx, const TextEvent& event);
  void begin_stream(bool with_status);
  void write_chunk(std::size_t prompt_idx, int index, const TextEvent& event);
  void finish();
  void fail(const ApiError& error);
  Usage usage() const;
  std::vector<Header> headers() const;

  const CompletionHost host_;
  Responder& responder_;
  bool is_done_ = false;

  CompletionCall call_;
  std::string id_;
  std::vector<ResponseStream> streams_;
  std::vector<Choice> choices_;
  int n_unfinished_ = 0;
  std::unique_ptr<CompletionBody> body_;
  bool has_stream_begun_ = false;

  /// Shared with the engine's thread: one pump is posted however many events arrive before it runs.
  struct Wakeup;
  std::shared_ptr<Wakeup> wakeup_;
};

}  // namespace monograph::server
