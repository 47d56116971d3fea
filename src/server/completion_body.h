// The bodies and stream chunks of completions and chats, written by hand in OpenAI's shapes, or in our plain one.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "monograph/engine.h"
#include "server/completion_call.h"

namespace monograph::server {

/// One choice as far as it has come.
struct Choice {
  std::string text;
  std::vector<TokenId> ids;
  int n_tokens = 0;  ///< Sampled ones, the end token included.
  PrefillInfo prefill;
  std::optional<FinishReason> finish;
  std::string stop_reason = "null";  ///< JSON: the stop string or stop id that ended it.
  bool has_begun = false;            ///< Its prefill is done.
  bool was_shown = false;            ///< A chunk of it went out.
  std::int64_t n_chars = 0;          ///< Of the tokens so far; the completions' text_offset.
  // Log-probabilities: chat's entries, or the completions' four lists.
  std::string logprob_entries;
  std::string logprob_tokens, token_logprobs, top_logprobs, text_offsets;
};

struct Usage {
  int n_prompt_tokens = 0;
  int n_completion_tokens = 0;
  int n_cached_tokens = 0;
  PrefillInfo prefill;  ///< Folded over the choices.
};

/// Writes everything one call answers. Borrows call and engine.
class CompletionBody {
 public:
  CompletionBody(const CompletionCall& call, const Engine& engine, std::string id, std::int64_t created);

  /// Adds what the event brings to its choice: text, ids, counts, finish. Log-probabilities are appended where
  /// they are wanted.
  void add(Choice& choice, const TextEvent& event) const;

  /// The non-stream body.
  std::string whole(const std::vector<Choice>& choices, const Usage& usage,
                    const std::vector<std::span<const TokenId>>& prompts) const;

  struct Chunk {
    int index = 0;
    std::string_view text;
    std::optional<TokenId> token;  ///< Shown when ids were asked for.
    bool is_first = false;         ///< Carries chat's role, and the prompt's ids when asked for.
    std::span<const TokenId> prompt_ids;
    const Usage* usage = nullptr;  ///< With every chunk when continuous usage was asked for.
    const Usage* last = nullptr;   ///< The chunk that ends the last choice carries the status of all.
  };
  /// `choice` holds the log-probabilities of this chunk only (see clear_logprobs) and, if finished, its end.
  std::string chunk(const Choice& choice, const Chunk& chunk) const;
  /// The extra chunk of `include_usage`.
  std::string usage_chunk(const Usage& usage) const;

  static void clear_logprobs(Choice& choice);

 private:
  void add_logprobs(Choice& choice, const TokenEvent& token) const;
  void add_chat_logprobs(Choice& choice, const TokenEvent& token) const;
  void add_completion_logprobs(Choice& choice, const TokenEvent& token) const;
  std::string logprob_name(TokenId id, const std::string& bytes) const;
  std::string logprobs_member(const Choice& choice) const;
  std::string head(const char* object) const;
  std::string whole_choice(int index, const Choice& choice, std::span<const TokenId> prompt) const;
  std::string choice_tail(const Choice& choice) const;
  std::string usage_json(const Usage& usage) const;
  std::string monograph_json(const PrefillInfo& prefill) const;

  const CompletionCall& call_;
  const Engine& engine_;
  const std::string id_;
  const std::int64_t created_;
};

/// The members that every answer shows of a prefill: `"prefill_cuda_graph_status":...`, with aux info the counts too.
/// This is the only place that lists them.
std::string prefill_members(const PrefillInfo& prefill, bool aux_info);

/// `replayed` only if all choices were; else the first other status. Counts are summed. Choices without a token yet do
/// not count.
PrefillInfo fold_prefill(const std::vector<Choice>& choices);

}  // namespace monograph::server
