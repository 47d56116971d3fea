#include "tests/schedule_run/answer.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace monograph::schedule_run {
namespace {

class Fnv {
 public:
  void add(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) state_ = (state_ ^ (word >> (8 * i) & 0xff)) * 0x100000001b3ull;
  }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};

std::string text_of(const std::vector<std::uint32_t>& token, std::size_t at) {
  if (at >= token.size()) return "nothing";
  if (at % 2 == 0) return "id " + std::to_string(token[at]);
  char text[64];
  std::snprintf(text, sizeof text, "logprob %.9g (0x%08x)", static_cast<double>(std::bit_cast<float>(token[at])),
                token[at]);
  return text;
}

std::string text_of(const std::vector<std::uint32_t>& expected, const std::vector<std::uint32_t>& found) {
  std::size_t at = 0;
  while (at < expected.size() && at < found.size() && expected[at] == found[at]) ++at;
  const std::string place = at < 2 ? "" : "top " + std::to_string(at / 2) + ", ";
  return place + text_of(found, at) + ", expected " + text_of(expected, at);
}

std::string text_of(const std::optional<FinishReason>& reason) {
  return reason ? std::string(to_string(*reason)) : "none";
}

std::string first_difference(const Output& expected, const Output& found) {
  for (std::size_t t = 0; t < std::max(expected.tokens.size(), found.tokens.size()); ++t) {
    const std::string place = "token " + std::to_string(t) + ": ";
    if (t >= found.tokens.size()) return place + "nothing, expected " + text_of(expected.tokens[t], 0);
    if (t >= expected.tokens.size()) return place + text_of(found.tokens[t], 0) + ", expected nothing";
    if (expected.tokens[t] != found.tokens[t]) return place + text_of(expected.tokens[t], found.tokens[t]);
  }
  return "finish reason " + text_of(found.finish) + ", expected " + text_of(expected.finish);
}

}  // namespace

std::uint64_t Answer::hash() const {
  Fnv fnv;
  for (const Output& output : outputs) {
    for (const auto& token : output.tokens) {
      fnv.add(token.size());
      for (std::uint32_t word : token) fnv.add(word);
    }
    fnv.add(output.finish ? 1 + static_cast<std::uint64_t>(*output.finish) : 0);
  }
  return fnv.state();
}

Answer take(ResponseStream& stream, int n) {
  Answer answer;
  const auto n_outputs = static_cast<std::size_t>(n);
  answer.outputs.resize(n_outputs);
  answer.prefills.resize(n_outputs);
  answer.steps.resize(n_outputs);
  while (const auto next = stream.next()) {
    const TokenEvent& event = next->token;
    const auto i = static_cast<std::size_t>(event.index);
    if (event.finish && *event.finish != FinishReason::kStop && *event.finish != FinishReason::kLength)
      throw Failure("ended with " + text_of(event.finish) + ": " + event.error);
    if (!event.token || !event.logprob) throw Failure("an event has no token, or no logprob");
    std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(*event.token),
                                        std::bit_cast<std::uint32_t>(*event.logprob)};
    for (const TokenLogprob& top : event.top_logprobs) {
      words.push_back(static_cast<std::uint32_t>(top.id));
      words.push_back(std::bit_cast<std::uint32_t>(top.logprob));
    }
    answer.outputs.at(i).tokens.push_back(std::move(words));
    answer.outputs[i].finish = event.finish;
    answer.prefills[i] = event.prefill;
    answer.steps[i].push_back(event.step);
  }
  return answer;
}

std::string first_difference(const Answer& expected, const Answer& found) {
  for (std::size_t i = 0; i < expected.outputs.size(); ++i)
    if (!(expected.outputs[i] == found.outputs.at(i)))
      return "sequence " + std::to_string(i) + ", " + first_difference(expected.outputs[i], found.outputs[i]);
  return "";
}

}  // namespace monograph::schedule_run
