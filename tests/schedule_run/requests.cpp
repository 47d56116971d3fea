#include "tests/schedule_run/requests.h"

#include <algorithm>

#include "tests/support/draw.h"

namespace monograph::schedule_run {
namespace {

using testing::below;
using testing::one_in;
using testing::Random;

constexpr int kPrefixes = 6;
constexpr int kMaxOutput = 16, kMaxLongOutput = 100;  ///< Long ones outgrow the blocks they were admitted with.

float tenths(Random& random, int least, int most) {
  return 0.1f * static_cast<float>(least + below(random, most - least + 1));
}

/// Many share a beginning, cut anywhere; half end shortly before a block does, so that their outputs need another.
std::vector<TokenId> make_prompt(const PromptShape& shape, std::uint64_t seed, Random& random) {
  std::vector<TokenId> prompt;
  const auto add = [&](Random& source, int n) {
    for (int i = 0; i < n; ++i) prompt.push_back(below(source, shape.vocab_size));
  };
  if (!one_in(random, 4)) {
    Random shared(seed * kPrefixes + random() % kPrefixes);
    const int longest = one_in(random, 3) ? kMaxPrompt : 2 * shape.block_size + 2;
    add(shared, std::min(1 + below(random, longest), kMaxPrompt - 1));
  }
  const int room = kMaxPrompt - static_cast<int>(prompt.size());
  add(random, 1 + below(random, one_in(random, 4) ? room : std::min(room, 40)));
  if (one_in(random, 2)) {
    const int in_block = static_cast<int>(prompt.size()) % shape.block_size;
    add(random, std::clamp(shape.block_size - 1 - in_block - below(random, 4), 0,
                           kMaxPrompt - static_cast<int>(prompt.size())));
  }
  return prompt;
}

void choose_sampling(const PromptShape& shape, int prompt_len, Random& random, SamplingParams& s) {
  constexpr int kTop[] = {0, 3, kMaxLogprobs};
  s.seed = random();
  s.logprobs = kTop[below(random, 3)];
  s.max_tokens =
      1 + below(random, one_in(random, 8) ? std::min(kMaxLongOutput, kMaxSequence - prompt_len) : kMaxOutput);
  if (s.temperature > 0) {
    s.temperature = tenths(random, 2, 15);
    if (one_in(random, 3)) s.top_k = 1 + below(random, shape.vocab_size);
    if (one_in(random, 3)) s.top_p = tenths(random, 3, 9);
    if (one_in(random, 4)) s.min_p = 0.05f;
  }
  if (one_in(random, 3)) {
    s.repetition_penalty = tenths(random, 7, 15);
    s.presence_penalty = tenths(random, -10, 10);
    s.frequency_penalty = tenths(random, -10, 10);
  }
  if (one_in(random, 5)) s.logit_bias = {{below(random, shape.vocab_size), tenths(random, -30, 30)}};
  if (one_in(random, 4)) s.stop_token_ids = {below(random, shape.vocab_size), below(random, shape.vocab_size)};
  s.ignore_eos = one_in(random, 2);
  if (one_in(random, 4)) s.min_tokens = below(random, s.max_tokens + 1);
}

}  // namespace

Request make_request(const PromptShape& shape, std::uint64_t seed, std::uint64_t number) {
  Random random((seed << 40) + number * 0x9e3779b97f4a7c15ull);
  Request request;
  request.prompt_ids = make_prompt(shape, seed, random);
  request.sampling.temperature = number % 2 == 0 ? 0.0f : 1.0f;
  choose_sampling(shape, static_cast<int>(request.prompt_ids.size()), random, request.sampling);
  if (one_in(random, 10)) request.n = 2;  // siblings share the prompt
  if (one_in(random, 12)) request.cache_salt = "other";
  return request;
}

Request make_other(const PromptShape& shape, std::uint64_t seed, std::uint64_t number) {
  Request other = make_request(shape, seed, number);
  std::vector<TokenId>& prompt = other.prompt_ids;
  prompt.resize(std::min(prompt.size(), static_cast<std::size_t>(shape.block_size)));
  other.sampling.max_tokens = kMaxSequence - static_cast<int>(number % (kMaxSequence / 2));
  return other;
}

}  // namespace monograph::schedule_run
