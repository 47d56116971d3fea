#include "server/deferred_call.h"

namespace monograph::server {

void DeferredCall::start(Engine& engine, Executor& executor, Work work, HttpRequest request,
                         std::int64_t inline_bytes) {
  if (static_cast<std::int64_t>(request.body.size()) <= inline_bytes)
    return responder_.send(run(engine, work, request));
  auto shared = std::make_shared<HttpRequest>(std::move(request));
  executor.post_to_worker([self = weak_from_this(), shared, work, engine = &engine, executor = &executor] {
    if (self.expired()) return;  // The client has left.
    auto response = std::make_shared<HttpResponse>(run(*engine, work, *shared));
    executor->post([self, response] {
      if (const auto call = self.lock()) call->responder_.send(std::move(*response));
    });
  });
}

HttpResponse DeferredCall::run(Engine& engine, Work work, const HttpRequest& request) {
  HttpResponse response;
  const auto failure = failure_in([&] { response.body = work(engine, request.body); });
  return failure ? error_response(*failure) : response;
}

void DeferredCall::on_deadline() {
  responder_.send(error_response(http_error(503, "the server is stopping", "stopping")));
}

}  // namespace monograph::server
