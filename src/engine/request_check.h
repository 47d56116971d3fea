// Is a request something the engine can do? Every rule about its values, in one place; the first broken one throws
// Error(kInvalidArgument) with the field's name.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "monograph/request.h"

namespace monograph {

inline constexpr int kMaxN = 128;  ///< Output sequences of one request.
inline constexpr int kMaxStopStrings = 64;
inline constexpr int kMaxStopStringBytes = 4096;
inline constexpr int kMaxStopIds = 128;  ///< With the end tokens they fit kMaxBannedIds.

struct RequestLimits {
  int vocab_size = 0;  ///< Rows of the LM head: ids lie below.
  int max_seq_len = 0;
  bool has_tokenizer = true;
  bool has_chat_template = true;
};

/// Everything that can be said before tokenizing.
void check_request(const Request& request, const RequestLimits& limits);
void check_sampling(const SamplingParams& sampling, const RequestLimits& limits);
/// The prompt's ids, whoever made them: not empty, inside the vocabulary, shorter than the context (PromptTooLong).
void check_prompt_ids(const std::vector<TokenId>& ids, const std::string& field, const RequestLimits& limits);
/// The prompt's explicit positions: `factor` for each token, each inside the context. Returns the largest; the output
/// counts on from it.
std::int32_t check_position_ids(std::span<const std::int32_t> ids, int prompt_len, int factor,
                                const RequestLimits& limits);

}  // namespace monograph
