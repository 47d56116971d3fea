// A call that is answered in one piece: on the loop thread if it is short, else on a worker.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "monograph/engine.h"
#include "server/error_body.h"
#include "server/http_message.h"

namespace monograph::server {

/// Runs `work`; a failure becomes the error to answer.
template <typename Work>
std::optional<ApiError> failure_in(Work work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return to_api_error(error);
  } catch (const std::bad_alloc&) {
    return http_error(503, "not enough memory for this request");
  } catch (const std::exception& error) {
    return http_error(500, error.what());
  }
}

class DeferredCall final : public Exchange, public std::enable_shared_from_this<DeferredCall> {
 public:
  using Work = std::string (*)(Engine&, std::string_view body);
  explicit DeferredCall(Responder& responder) : responder_(responder) {}

  void start(Engine& engine, Executor& executor, Work work, HttpRequest request, std::int64_t inline_bytes);
  void on_silence() override {}
  void on_deadline() override;

 private:
  static HttpResponse run(Engine& engine, Work work, const HttpRequest& request);
  Responder& responder_;
};

}  // namespace monograph::server
