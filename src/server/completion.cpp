#include "server/completion.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <ctime>
#include <random>

#include "base/json.h"
#include "server/deferred_call.h"
#include "server/error_body.h"

namespace monograph::server {
namespace {

constexpr std::size_t kMaxIgnoredNames = 16;
constexpr std::size_t kMaxNameBytes = 48;

std::string random_id() {
  std::random_device device;
  char text[32];
  std::snprintf(text, sizeof text, "%08x%08x%08x", device(), device(), device());
  return text;
}

std::string id_prefix(Api api) { return api == Api::kChat ? "chatcmpl-" : api == Api::kGenerate ? "gen-" : "cmpl-"; }

bool is_name_byte(unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; }

// Names come from the client: only harmless bytes may enter a header or a log.
std::string harmless(std::string_view name) {
  std::string out(name.substr(0, kMaxNameBytes));
  for (char& c : out)
    if (!is_name_byte(static_cast<unsigned char>(c))) c = '?';
  return out;
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxIgnoredNames); ++i)
    out += (i > 0 ? ", " : "") + harmless(names[i]);
  if (names.size() > kMaxIgnoredNames) out += ", ...";
  return out;
}

ApiError failure_of(const TokenEvent& token) {
  if (*token.finish == FinishReason::kCancelled)
    return http_error(503, "the request was cancelled: the server stops", "stopping");
  if (*token.finish == FinishReason::kDeadline) return http_error(503, "the request's deadline passed", "deadline");
  return http_error(500, token.error.empty() ? "the request failed" : token.error, "generation_failed");
}

}  // namespace

struct Completion::Wakeup {
  std::atomic<bool> is_posted{false};
  std::weak_ptr<Completion> completion;
  Executor* executor = nullptr;

  void operator()(const std::shared_ptr<Wakeup>& self) {
    if (is_posted.exchange(true)) return;
    executor->post([self] {
      self->is_posted = false;  // Before looking: an event after this line posts again.
      if (const auto target = self->completion.lock()) target->pump();
    });
  }
};

Completion::Completion(const CompletionHost& host, Responder& responder) : host_(host), responder_(responder) {}

Completion::~Completion() {
  for (ResponseStream& stream : streams_) stream.set_notifier({});
}

// --- From the body to streams ---

Completion::Submitted Completion::submit(Engine& engine, const HttpRequest& request, Api api) {
  Submitted out;
  out.call = read_completion_call(request.body, api, engine);
  std::string& asked = out.call.requests.front().id;
  if (asked.empty()) asked = request.request_id;
  out.id = id_prefix(api) + (asked.empty() ? random_id() : harmless(asked));
  for (std::size_t i = 0; i < out.call.requests.size(); ++i) {
    Request& one = out.call.requests[i];
    one.id = i == 0 ? out.id : out.id + "-" + std::to_string(i);
    out.streams.push_back(engine.submit(std::move(one)));
  }
  return out;
}

void Completion::start(HttpRequest request, Api api, std::int64_t inline_bytes) {
  if (static_cast<std::int64_t>(request.body.size()) > inline_bytes) return start_on_worker(std::move(request), api);
  const auto failure = failure_in([&] { run(submit(host_.engine, request, api)); });
  if (failure) fail(*failure);
}

void Completion::start_on_worker(HttpRequest request, Api api) {
  auto work = [self = weak_from_this(), request = std::make_shared<HttpRequest>(std::move(request)), api,
               engine = &host_.engine, executor = &host_.executor] {
    if (self.expired()) return;  // The client has left.
    auto submitted = std::make_shared<Submitted>();
    const auto failure = failure_in([&] { *submitted = submit(*engine, *request, api); });
    executor->post([self, submitted, failure] {
      const auto completion = self.lock();
      if (!completion) return;
      if (failure) return completion->fail(*failure);
      completion->run(std::move(*submitted));
    });
  };
  host_.executor.post_to_worker(std::move(work));
}

void Completion::run(Submitted submitted) {
  if (is_done_) return;
  call_ = std::move(submitted.call);
  id_ = std::move(submitted.id);
  streams_ = std::move(submitted.streams);
  choices_.resize(static_cast<std::size_t>(call_.n_choices()));
  n_unfinished_ = call_.n_choices();
  body_ = std::make_unique<CompletionBody>(call_, host_.engine, id_, std::time(nullptr));
  log_ignored();
  watch();
}

void Completion::log_ignored() const {
  if (call_.ignored_fields.empty()) return;
  if (const auto n = host_.ignored_tick.next())
    host_.log.info("request fields ignored: " + joined_names(call_.ignored_fields) + " (" + std::to_string(n) +
                   " such requests so far)");
}

void Completion::watch() {
  wakeup_ = std::make_shared<Wakeup>();
  wakeup_->completion = weak_from_this();
  wakeup_->executor = &host_.executor;
  for (ResponseStream& stream : streams_) stream.set_notifier([wakeup = wakeup_] { (*wakeup)(wakeup); });
  (*wakeup_)(wakeup_);
}

// --- From events to the client ---

void Completion::pump() {
  if (is_done_) return;
  const auto failure = failure_in([&] {
    for (std::size_t i = 0; i < streams_.size() && !is_done_; ++i) pump_stream(i);
  });
  if (failure) return fail(*failure);
  if (is_done_) return;
  if (n_unfinished_ == 0) return finish();
  const bool is_over =
      std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream.finished(); });
  if (is_over) fail(http_error(500, "a sequence ended without saying why", "generation_failed"));
}

void Completion::pump_stream(std::size_t prompt_idx) {
  while (!is_done_) {
    const auto event = streams_[prompt_idx].poll();
    if (!event) return;
    on_event(prompt_idx, *event);
  }
}

void Completion::on_event(std::size_t prompt_idx, const TextEvent& event) {
  const auto& finish = event.token.finish;
  if (finish && *finish != FinishReason::kStop && *finish != FinishReason::kLength)
    return fail(failure_of(event.token));
  const int index = static_cast<int>(prompt_idx) * call_.n + event.token.index;
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  if (choice.finish) return;
  const bool is_first = !choice.has_begun;
  body_->add(choice, event);
  if (choice.finish) --n_unfinished_;
  if (!call_.stream) return;
  begin_stream(/*with_status=*/true);
  // Nothing to see in it yet, for example half a character: the next one carries it.
  const bool shows_tokens = call_.return_token_ids || call_.logprobs >= 0 || call_.continuous_usage;
  if (is_first || choice.finish || !event.text.empty() || shows_tokens) write_chunk(prompt_idx, index, event);
}

void Completion::begin_stream(bool with_status) {
  if (has_stream_begun_) return;
  has_stream_begun_ = true;
  auto lines = headers();
  if (with_status)
    lines.push_back({"X-Monograph-Prefill-Status", std::string(to_string(fold_prefill(choices_).status))});
  responder_.begin_stream(std::move(lines));
}

void Completion::write_chunk(std::size_t prompt_idx, int index, const TextEvent& event) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  CompletionBody::Chunk chunk;
  chunk.index = index;
  chunk.text = event.text;
  chunk.token = event.token.token ? event.token.token : event.token.stop_token;
  chunk.is_first = !choice.was_shown;
  choice.was_shown = true;
  chunk.prompt_ids = streams_[prompt_idx].prompt_ids();
  const Usage now = usage();
  if (call_.continuous_usage) chunk.usage = &now;
  if (n_unfinished_ == 0) chunk.last = &now;
  responder_.write("data: " + body_->chunk(choice, chunk) + "\n\n");
  CompletionBody::clear_logprobs(choice);
  choice.text.clear();
}

void Completion::finish() {
  is_done_ = true;
  const Usage total = usage();
  if (call_.stream) {
    if (call_.include_usage) responder_.write("data: " + body_->usage_chunk(total) + "\n\n");
    responder_.write("data: [DONE]\n\n");
    return responder_.end_stream(/*close=*/false);
  }
  std::vector<std::span<const TokenId>> prompts;
  for (const ResponseStream& stream : streams_) prompts.push_back(stream.prompt_ids());
  HttpResponse response;
  response.headers = headers();
  response.headers.push_back({"X-Monograph-Prefill-Status", std::string(to_string(total.prefill.status))});
  response.body = body_->whole(choices_, total, prompts);
  responder_.send(std::move(response));
}

void Completion::fail(const ApiError& error) {
  if (is_done_) return;
  is_done_ = true;
  for (ResponseStream& stream : streams_) stream.cancel();
  if (!has_stream_begun_) {
    HttpResponse response = error_response(error);
    for (Header& header : headers()) response.headers.push_back(std::move(header));
    return responder_.send(std::move(response));
  }
  // The status line is gone: an error event, no finish_reason, no [DONE], and the connection closes.
  responder_.write("data: " + error_json(error) + "\n\n");
  responder_.end_stream(/*close=*/true);
}

Usage Completion::usage() const {
  Usage out;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    out.n_prompt_tokens += static_cast<int>(streams_[i].prompt_ids().size());
    // The n sequences share one prompt; what the first one found in the cache was there before the request.
    out.n_cached_tokens += choices_[i * static_cast<std::size_t>(call_.n)].prefill.n_reused_tokens;
  }
  for (const Choice& choice : choices_) out.n_completion_tokens += choice.n_tokens;
  out.prefill = fold_prefill(choices_);
  return out;
}

std::vector<Header> Completion::headers() const {
  std::vector<Header> out;
  if (!id_.empty()) out.push_back({"X-Request-Id", id_});
  if (!call_.ignored_fields.empty()) out.push_back({"X-Monograph-Ignored-Fields", joined_names(call_.ignored_fields)});
  return out;
}

// --- What else may happen ---

void Completion::on_silence() {
  if (is_done_ || !call_.stream || streams_.empty()) return;
  begin_stream(/*with_status=*/false);
  responder_.write(": ping\n\n");
}

void Completion::on_deadline() { fail(http_error(503, "the server is stopping", "stopping")); }

}  // namespace monograph::server
