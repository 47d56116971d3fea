#include "engine/response.h"

#include "base/check.h"

namespace monograph {

Response::Response(std::string id, std::vector<TokenId> prompt_ids, std::uint64_t seed, const SamplingParams& sampling,
                   int n, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<Channel> channel,
                   std::shared_ptr<RequestState> request)
    : id_(std::move(id)),
      prompt_ids_(std::move(prompt_ids)),
      seed_(seed),
      stop_strings_(sampling.stop),
      tokenizer_(std::move(tokenizer)),
      channel_(std::move(channel)),
      request_(std::move(request)),
      n_open_(n) {
  for (int i = 0; i < n; ++i) {
    outputs_.push_back({.stops = StopMatcher(sampling.stop, sampling.include_stop_str_in_output)});
    if (tokenizer_) outputs_.back().detokenizer.emplace(*tokenizer_, !sampling.skip_special_tokens);
  }
}

Response::~Response() {
  channel_->set_notifier({});
  cancel();
}

void Response::cancel() {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].open) signal(i, CancelCause::kCaller);
  request_->let_go = std::chrono::steady_clock::now().time_since_epoch().count();
}

void Response::signal(std::size_t index, CancelCause cause) {
  CancelCause none = CancelCause::kNone;
  request_->cancelled[index].compare_exchange_strong(none, cause);
}

std::optional<TextEvent> Response::next() {
  while (n_open_ > 0)
    if (auto event = take(channel_->pop())) return event;
  return std::nullopt;
}

std::optional<TextEvent> Response::poll() {
  while (n_open_ > 0) {
    auto event = channel_->try_pop();
    if (!event) return std::nullopt;
    if (auto text = take(std::move(*event))) return text;
  }
  return std::nullopt;
}

/// Nothing for what the engine still sends of a sequence that a stop string has ended.
std::optional<TextEvent> Response::take(TokenEvent token) {
  CHECK(token.index >= 0 && token.index < static_cast<int>(outputs_.size()));
  const auto index = static_cast<std::size_t>(token.index);
  Output& output = outputs_[index];
  if (!output.open) return std::nullopt;
  TextEvent event{.token = std::move(token)};
  if (output.detokenizer) add_text(event, output);
  if (event.matched_stop) {
    if (!event.token.finish) signal(index, CancelCause::kStopString);
    event.token.finish = FinishReason::kStop;
    event.token.error.clear();
  }
  if (event.token.finish) {
    output.open = false;
    --n_open_;
  }
  return event;
}

void Response::add_text(TextEvent& event, Output& output) {
  const TokenEvent& token = event.token;
  if (token.token && !token.stop_token) event.text = output.stops.push(output.detokenizer->push(*token.token));
  if (token.finish && output.stops.matched() < 0) {
    event.text += output.stops.push(output.detokenizer->finish());
    if (output.stops.matched() < 0) event.text += output.stops.finish();
  }
  if (output.stops.matched() >= 0) event.matched_stop = stop_strings_[static_cast<std::size_t>(output.stops.matched())];
}

}  // namespace monograph
