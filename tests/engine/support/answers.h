// Asks an engine and collects what it answers.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "monograph/engine.h"

namespace monograph {

using Ids = std::vector<TokenId>;

struct Answer {
  Ids ids;
  std::string text;
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;
  std::optional<std::string> matched_stop;
  PrefillInfo prefill;
  std::string error;
  std::vector<TextEvent> events;
};

inline std::vector<Answer> take_all(ResponseStream& stream, int n = 1) {
  std::vector<Answer> answers(static_cast<std::size_t>(n));
  while (auto event = stream.next()) {
    Answer& a = answers.at(static_cast<std::size_t>(event->token.index));
    EXPECT_FALSE(a.finish) << "an event after the last";
    if (event->token.token) a.ids.push_back(*event->token.token);
    a.text += event->text;
    a.finish = event->token.finish;
    a.stop_token = event->token.stop_token;
    a.matched_stop = event->matched_stop;
    a.prefill = event->token.prefill;
    a.error = event->token.error;
    a.events.push_back(std::move(*event));
  }
  EXPECT_TRUE(stream.finished());
  return answers;
}

inline Answer ask(Engine& engine, Request request) {
  ResponseStream stream = engine.submit(std::move(request));
  return take_all(stream).at(0);
}

inline Request of(const std::string& prompt, int max_tokens = 8) {
  Request request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

inline Request of(Ids ids, int max_tokens = 8) {
  Request request;
  request.prompt_ids = std::move(ids);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

inline Ids random_ids(std::mt19937_64& random, int n) {
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(8 + random() % 270));
  return ids;
}

/// Tokens and the exact log probabilities of an answer: as near to the logits as a caller gets.
struct Scored {
  Ids ids;
  std::vector<float> logprobs;
  bool operator==(const Scored&) const = default;
};

inline Scored scored(const Answer& answer) {
  Scored out{answer.ids, {}};
  for (const TextEvent& event : answer.events) {
    out.logprobs.push_back(event.token.logprob.value_or(1.0f));
    for (const TokenLogprob& top : event.token.top_logprobs) out.logprobs.push_back(top.logprob);
  }
  return out;
}

inline Request scoring(Ids ids, int max_tokens) {
  Request request = of(std::move(ids), max_tokens);
  request.sampling.logprobs = 5;
  return request;
}

}  // namespace monograph
