#include "server/routes.h"

#include <algorithm>
#include <ctime>
#include <string_view>

#include "base/json.h"
#include "server/completion.h"
#include "server/deferred_call.h"
#include "server/error_body.h"
#include "server/field_values.h"
#include "server/text_calls.h"

namespace monograph::server {
namespace {

constexpr std::string_view kModels = "/v1/models";

/// An error that is the HTTP layer's own: thrown by a handler, answered by handle().
struct HttpFailure {
  ApiError error;
  std::string allow;  ///< For 405.
  bool close = false;
};

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

bool starts_with_word(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  const auto is_same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (!std::equal(word.begin(), word.end(), text.begin(), [&](char w, char t) { return is_same(t, w); })) return false;
  return text.size() == word.size() || text[word.size()] == ';' || text[word.size()] == ' ';
}

bool allows(std::string_view methods, std::string_view method) {
  const auto at = methods.find(method);
  if (at == std::string_view::npos || method.empty()) return false;
  const auto end = at + method.size();
  return (at == 0 || methods[at - 1] == ' ') && (end == methods.size() || methods[end] == ',');
}

std::string hex_decoded(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_escape = path[i] == '%' && i + 2 < path.size() &&
                           std::isxdigit(static_cast<unsigned char>(path[i + 1])) &&
                           std::isxdigit(static_cast<unsigned char>(path[i + 2]));
    if (!is_escape) {
      out += path[i];
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

}  // namespace

Routes::Routes(const ServerConfig& config, Log log, Executor& executor, std::function<std::string()> http_metrics)
    : config_(config),
      log_(std::move(log)),
      executor_(executor),
      http_metrics_(std::move(http_metrics)),
      created_(std::time(nullptr)) {}

const Routes::Route* Routes::find(const std::string& path) {
  static const Route kRoutes[] = {
      {"/v1/completions", "POST", &Routes::completions},
      {"/v1/chat/completions", "POST", &Routes::chat_completions},
      {"/generate", "POST", &Routes::generate},
      {"/v1/models", "GET, HEAD", &Routes::models},
      {"/tokenize", "POST", &Routes::tokenize},
      {"/detokenize", "POST", &Routes::detokenize},
      {"/apply-template", "POST", &Routes::apply_template},
      {"/health", "GET, HEAD", &Routes::health},
      {"/readyz", "GET, HEAD", &Routes::health},
      {"/livez", "GET, HEAD", &Routes::live},
      {"/ping", "GET, HEAD, POST", &Routes::health},
      {"/metrics", "GET, HEAD", &Routes::metrics},
      {"/version", "GET, HEAD", &Routes::version},
  };
  // A model's name may hold slashes.
  const std::string exact = path.rfind(std::string(kModels) + "/", 0) == 0 ? std::string(kModels) : path;
  for (const Route& route : kRoutes)
    if (exact == route.path) return &route;
  return nullptr;
}

std::shared_ptr<Exchange> Routes::handle(HttpRequest request, Responder& responder) {
  Call call{request, responder, nullptr};
  try {
    const auto failure = failure_in([&] { dispatch(call); });
    if (failure) responder.send(error_response(*failure));
  } catch (const HttpFailure& failure) {
    HttpResponse response = error_response(failure.error);
    if (!failure.allow.empty()) response.headers.push_back({"Allow", failure.allow});
    response.close = failure.close;
    responder.send(std::move(response));
  }
  return call.exchange;
}

void Routes::dispatch(Call& call) {
  const HttpRequest& request = call.request;
  const Route* route = find(request.path);
  if (!route) throw HttpFailure{http_error(404, "there is no " + json_string(request.path) + " here"), {}, false};
  if (!allows(route->methods, request.method))
    throw HttpFailure{
        http_error(405, "this path takes " + std::string(route->methods) + ", not " + json_string(request.method)),
        route->methods, false};
  (this->*route->handler)(call);
}

Engine& Routes::need_engine() const {
  if (is_draining_) throw HttpFailure{http_error(503, "the server is stopping", "stopping"), {}, true};
  Engine* engine = engine_.load(std::memory_order_acquire);
  if (!engine) throw HttpFailure{http_error(503, "the model is still loading", "loading"), {}, false};
  return *engine;
}

void Routes::check_json(const HttpRequest& request) const {
  const std::string& type = request.content_type;
  if (!type.empty() && !starts_with_word(type, "application/json"))
    throw HttpFailure{http_error(415, "the body must be application/json, not " + json_string(type)), {}, false};
  const std::string& encoding = request.content_encoding;
  if (!encoding.empty() && !starts_with_word(encoding, "identity"))
    throw HttpFailure{http_error(415, "the body must not be compressed, but is " + json_string(encoding)), {}, false};
}

// --- Work ---

void Routes::completions(Call& call) { complete(call, Api::kCompletions); }
void Routes::chat_completions(Call& call) { complete(call, Api::kChat); }

void Routes::generate(Call& call) { complete(call, Api::kGenerate); }

void Routes::complete(Call& call, Api api) {
  check_json(call.request);
  auto completion =
      std::make_shared<Completion>(CompletionHost{need_engine(), log_, executor_, ignored_tick_}, call.responder);
  completion->start(std::move(call.request), api, config_.inline_body_bytes);
  call.exchange = std::move(completion);
}

void Routes::answer_text(Call& call, std::string (*work)(Engine&, std::string_view)) {
  check_json(call.request);
  auto deferred = std::make_shared<DeferredCall>(call.responder);
  deferred->start(need_engine(), executor_, work, std::move(call.request), config_.inline_body_bytes);
  call.exchange = std::move(deferred);
}

void Routes::tokenize(Call& call) { answer_text(call, tokenize_call); }
void Routes::detokenize(Call& call) { answer_text(call, detokenize_call); }
void Routes::apply_template(Call& call) { answer_text(call, apply_template_call); }

// --- What the server says about itself ---

void Routes::models(Call& call) {
  const ModelInfo& info = need_engine().info();
  std::string model =
      "{\"id\":" + json_string(info.name) + ",\"object\":\"model\",\"created\":" + std::to_string(created_);
  model += ",\"owned_by\":\"monograph\",\"root\":" + json_string(info.name) + ",\"parent\":null";
  model += ",\"max_model_len\":" + std::to_string(info.max_seq_len);
  model +=
      ",\"monograph\":{\"summary\":" + json_string(info.summary) + ",\"vocab_size\":" + std::to_string(info.vocab_size);
  model += ",\"has_chat_template\":" + std::string(info.has_chat_template ? "true" : "false");
  model += ",\"sampling_defaults\":" + (info.sampling_defaults.empty() ? "{}" : info.sampling_defaults) + "}}";
  if (call.request.path.size() <= kModels.size())
    return call.responder.send(json_response("{\"object\":\"list\",\"data\":[" + model + "]}"));
  const std::string name = hex_decoded(std::string_view(call.request.path).substr(kModels.size() + 1));
  if (name != info.name)
    throw HttpFailure{
        http_error(404, "there is no model " + json_string(name) + " here", "model_not_found"), {}, false};
  call.responder.send(json_response(model));
}

void Routes::health(Call& call) {
  Engine& engine = need_engine();
  const double silent = engine.seconds_since_heartbeat();
  if (silent > std::chrono::duration<double>(config_.stall_after).count()) {
    const std::string seconds = std::to_string(static_cast<std::int64_t>(silent));
    throw HttpFailure{http_error(503, "the engine has made no step for " + seconds + " s", "stalled"), {}, false};
  }
  call.responder.send(json_response("{\"status\":\"ok\"}"));
}

void Routes::live(Call& call) { call.responder.send(json_response("{\"status\":\"alive\"}")); }

void Routes::metrics(Call& call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  if (const Engine* engine = engine_.load(std::memory_order_acquire)) response.body = engine->metrics();
  response.body += http_metrics_();
  call.responder.send(std::move(response));
}

void Routes::version(Call& call) {
  call.responder.send(json_response("{\"version\":" + json_string(config_.version) + "}"));
}

}  // namespace monograph::server
