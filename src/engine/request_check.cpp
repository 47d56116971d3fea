#include "engine/request_check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "monograph/error.h"

namespace monograph {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::kInvalidArgument, field + " " + found + ": expected " + expected, field);
}

std::string text_of(float value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// least..most, or above `least` where `open`. NaN is never inside.
void check_number(const char* field, float value, float least, float most, bool open = false) {
  const bool inside = (open ? value > least : value >= least) && value <= most;
  if (!inside)
    refuse(field, text_of(value),
           (open ? "more than " + text_of(least) + " and at most " : "a number from " + text_of(least) + " to ") +
               text_of(most));
}

void check_whole(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    refuse(field, std::to_string(value), std::to_string(least) + ".." + std::to_string(most));
}

void check_id(const char* field, TokenId id, int vocab_size) {
  if (id < 0 || id >= vocab_size)
    refuse(field, "has token id " + std::to_string(id), "ids from 0 to " + std::to_string(vocab_size - 1));
}

void check_bias(const SamplingParams& s, int vocab_size) {
  if (s.logit_bias.size() > kMaxLogitBias)
    refuse("logit_bias", "has " + std::to_string(s.logit_bias.size()) + " entries",
           "at most " + std::to_string(kMaxLogitBias));
  std::set<TokenId> seen;
  for (const auto& [id, value] : s.logit_bias) {
    check_id("logit_bias", id, vocab_size);
    check_number("logit_bias", value, -100.0f, 100.0f);
    if (!seen.insert(id).second) refuse("logit_bias", "has token id " + std::to_string(id) + " twice", "each id once");
  }
}

void check_stops(const SamplingParams& s, const RequestLimits& limits) {
  if (s.stop_token_ids.size() > kMaxStopIds)
    refuse("stop_token_ids", "has " + std::to_string(s.stop_token_ids.size()) + " ids",
           "at most " + std::to_string(kMaxStopIds));
  for (TokenId id : s.stop_token_ids) check_id("stop_token_ids", id, limits.vocab_size);
  if (s.stop.size() > kMaxStopStrings)
    refuse("stop", "has " + std::to_string(s.stop.size()) + " strings", "at most " + std::to_string(kMaxStopStrings));
  for (const std::string& stop : s.stop)
    if (stop.empty() || stop.size() > kMaxStopStringBytes)
      refuse("stop", "has a string of " + std::to_string(stop.size()) + " bytes",
             "1 to " + std::to_string(kMaxStopStringBytes));
  if (!s.stop.empty() && !limits.has_tokenizer) refuse("stop", "is given", "none: the model has no tokenizer");
}

}  // namespace

void check_sampling(const SamplingParams& s, const RequestLimits& limits) {
  check_number("temperature", s.temperature, 0.0f, 100.0f);
  check_number("top_p", s.top_p, 0.0f, 1.0f, /*open=*/true);
  check_whole("top_k", s.top_k, -1, INT32_MAX);
  check_number("min_p", s.min_p, 0.0f, 1.0f);
  check_number("repetition_penalty", s.repetition_penalty, 0.0f, 10.0f, /*open=*/true);
  // Below this the penalised logits overflow float32.
  if (s.repetition_penalty < 1e-3f) refuse("repetition_penalty", text_of(s.repetition_penalty), "at least 0.001");
  check_number("presence_penalty", s.presence_penalty, -2.0f, 2.0f);
  check_number("frequency_penalty", s.frequency_penalty, -2.0f, 2.0f);
  check_whole("max_tokens", s.max_tokens, 1, INT32_MAX);
  check_whole("min_tokens", s.min_tokens, 0, s.max_tokens);
  check_whole("logprobs", s.logprobs, -1, kMaxLogprobs);
  check_bias(s, limits.vocab_size);
  check_stops(s, limits);
}

void check_request(const Request& request, const RequestLimits& limits) {
  const int n_prompts = (request.prompt ? 1 : 0) + (request.chat ? 1 : 0) + (request.prompt_ids.empty() ? 0 : 1);
  if (n_prompts == 0) refuse("prompt", "is missing or has no tokens", "text, token ids or messages");
  if (n_prompts > 1) refuse("prompt", "is given more than once", "one of text, token ids and messages");
  if (request.prompt && !limits.has_tokenizer) refuse("prompt", "is text", "token ids: the model has no tokenizer");
  if (request.chat && !limits.has_tokenizer) refuse("messages", "are given", "token ids: the model has no tokenizer");
  if (request.chat && !limits.has_chat_template)
    refuse("messages", "are given", "a plain prompt: the model has no chat template (see --chat-template)");
  check_whole("n", request.n, 1, kMaxN);
  if (request.deadline && request.deadline->count() <= 0)
    refuse("deadline", std::to_string(request.deadline->count()) + " ms", "more than 0");
  check_sampling(request.sampling, limits);
}

std::int32_t check_position_ids(std::span<const std::int32_t> ids, int prompt_len, int factor,
                                const RequestLimits& limits) {
  if (static_cast<std::int64_t>(ids.size()) != static_cast<std::int64_t>(prompt_len) * factor)
    refuse("position_ids", "has " + std::to_string(ids.size()) + " values",
           std::to_string(prompt_len) + " x " + std::to_string(factor));
  for (std::int32_t id : ids) check_whole("position_ids", id, 0, limits.max_seq_len - 1);
  return *std::ranges::max_element(ids);
}

void check_prompt_ids(const std::vector<TokenId>& ids, const std::string& field, const RequestLimits& limits) {
  if (ids.empty()) refuse(field, "has no tokens", "at least one");
  for (TokenId id : ids) check_id(field.c_str(), id, limits.vocab_size);
  if (static_cast<int>(ids.size()) >= limits.max_seq_len)
    throw PromptTooLong("the prompt has " + std::to_string(ids.size()) + " tokens, but the context holds " +
                            std::to_string(limits.max_seq_len) + " tokens of prompt and output together",
                        field, static_cast<int>(ids.size()), limits.max_seq_len);
}

}  // namespace monograph
