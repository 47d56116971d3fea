// What a request may ask of the sampler. Limits are checked once, where the request enters.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace monograph {

using TokenId = std::int32_t;

inline constexpr int kMaxLogprobs = 20;     ///< Top tokens per position.
inline constexpr int kMaxLogitBias = 1024;  ///< logit_bias entries per sequence.
inline constexpr int kMaxBannedIds = 256;   ///< Ids forbidden at once (end tokens before min_tokens, bad words).

/// Defaults are OpenAI's. Order: bias, bans, penalties, temperature, top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1.0f;           ///< 0..100; below 1e-5 means greedy.
  float top_p = 1.0f;                 ///< (0, 1]
  int top_k = 0;                      ///< 0 or -1: all.
  float min_p = 0.0f;                 ///< [0, 1]: least probability relative to the most likely token.
  float repetition_penalty = 1.0f;    ///< (0, 10]: over prompt and output. (arXiv:1909.05858)
  float presence_penalty = 0.0f;      ///< [-2, 2]: over output tokens.
  float frequency_penalty = 0.0f;     ///< [-2, 2]: over output tokens.
  std::optional<std::uint64_t> seed;  ///< The n-th sequence of a request uses seed + n; none: the engine picks one.
  std::vector<std::pair<TokenId, float>> logit_bias;
  int max_tokens = 16;  ///< >= 1
  int min_tokens = 0;   ///< End tokens are forbidden before.
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> stop;  ///< Matched on text, on the caller's thread.
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  int logprobs = -1;  ///< -1: none; 0..kMaxLogprobs: the chosen token and that many top tokens.
};

}  // namespace monograph
