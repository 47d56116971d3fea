// What goes into the engine and what comes out, as plain values.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monograph/sampling.h"
#include "monograph/status.h"

namespace monograph {

struct Request {
  std::string id;                     ///< For logs and traces; made up if empty.
  std::optional<std::string> prompt;  ///< Text, tokenized with the vocabulary's own BOS rule; or
  std::vector<TokenId> prompt_ids;    ///< ids, taken as they are. Exactly one of the two (or `chat`).
  std::optional<std::string> chat;  ///< JSON: {"messages": [...], "tools": [...], "add_generation_prompt": true, ...}:
                                    ///< the variables of the model's chat template.
  SamplingParams sampling;
  int n = 1;               ///< Output sequences; each has its own seed, they share the prompt's blocks.
  std::string cache_salt;  ///< Prefix blocks are shared only between equal salts.
  std::optional<std::chrono::milliseconds> deadline;  ///< From submission; then the request ends with kDeadline.
  /// Explicit positions, token-major int32 [T*P] (P = the model's position factor); library only.
  std::optional<std::vector<std::int32_t>> position_ids;
};

enum class FinishReason { kStop, kLength, kCancelled, kDeadline, kError };
std::string_view to_string(FinishReason reason);

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

/// What a prefill did, latched on its sequence (SPEC A.6, S-104).
struct PrefillInfo {
  PrefillStatus status = PrefillStatus::kNotRequested;
  int n_prefill_steps = 0;
  int n_prefill_replays = 0;
  int n_reused_tokens = 0;  ///< Prompt tokens found in the prefix cache at first admission.
};

/// One step of one output sequence, from the engine thread. Moved once, never shared.
struct TokenEvent {
  int index = 0;                 ///< Which of the n sequences.
  std::optional<TokenId> token;  ///< Absent only in an event that just ends the sequence.
  std::optional<float> logprob;
  std::vector<TokenLogprob> top_logprobs;
  PrefillInfo prefill;  ///< As known now; the last event's value is authoritative.
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;  ///< The end token or stop id that ended it (not part of the output text).
  std::string error;                  ///< Why, when finish is kError.
  std::int64_t step = 0;              ///< Number of the step that made the token, as in the step log.
};

/// The same after detokenizing and stop strings: what a client is shown.
struct TextEvent {
  TokenEvent token;
  std::string text;                         ///< Newly complete text, valid UTF-8; may be empty.
  std::optional<std::string> matched_stop;  ///< The stop string that ended the sequence.
};

}  // namespace monograph
