// The prompts whose answers no schedule may change, drawn from a seed.
#pragma once
#include <cstdint>

#include "monograph/request.h"

namespace monograph::schedule_run {

constexpr int kMaxPrompt = 300;
constexpr int kMaxSequence = 320;  ///< Prompt and output; a multiple of each block size.

struct PromptShape {
  int vocab_size = 0, block_size = 0;
};

/// The same for equal (shape, seed, number). Every second one is greedy; all ask for logprobs.
Request make_request(const PromptShape& shape, std::uint64_t seed, std::uint64_t number);
/// One to let go: a short prompt and a long output, so that some of them fill the smaller KV caches.
Request make_other(const PromptShape& shape, std::uint64_t seed, std::uint64_t number);

}  // namespace monograph::schedule_run
