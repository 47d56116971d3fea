// A completion or chat request as its client meant it: JSON → CompletionCall.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "monograph/engine.h"

namespace monograph::server {

inline constexpr int kMaxChoicesPerPrompt = 128;  ///< `n`
inline constexpr int kMaxPrompts = 256;
inline constexpr int kMaxChoices = 1024;  ///< Prompts times n.

/// Whose shapes a call has. kGenerate: the fields of kCompletions, answered without OpenAI's envelope, ids included.
enum class Api { kCompletions, kChat, kGenerate };

struct CompletionCall {
  Api api = Api::kCompletions;
  std::string model;              ///< As the answer names it.
  std::vector<Request> requests;  ///< One per prompt; each makes `n` choices.
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool aux_info = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;           ///< Log-probabilities name tokens "token_id:N".
  int logprobs = -1;                    ///< -1: none, else how many top tokens.
  std::vector<TokenId> stop_token_ids;  ///< Those of the requests, for `stop_reason`.
  std::vector<std::string> ignored_fields;

  bool is_chat() const { return api == Api::kChat; }
  bool is_plain() const { return api == Api::kGenerate; }
  int n_choices() const { return n * static_cast<int>(requests.size()); }
};

/// Reads and checks a whole body. Throws Error: kInvalidArgument naming the field (also for a field that Monograph
/// knows but does not honour), kNotFound for another model's name.
CompletionCall read_completion_call(std::string_view body, Api api, const Engine& engine);

}  // namespace monograph::server
