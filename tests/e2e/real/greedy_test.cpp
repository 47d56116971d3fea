// Greedy decoding of the default model is what transformers gives, token for token. (issue: Fidelity)
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "monograph/engine.h"
#include "tests/e2e/real/default_model.h"

namespace monograph::e2e {
namespace {

/// A different token is a tie where the reference's two best logits are closer than this.
constexpr float kTie = 1e-3f;

class Greedy : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineConfig config;
    config.model = default_model_path();
    config.max_seq_len = 2048;
    engine_ = Engine::load(config);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static ResponseStream submit(std::vector<TokenId> prompt, int n) {
    Request request;
    request.prompt_ids = std::move(prompt);
    request.sampling = SamplingParams{};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = n;
    request.sampling.ignore_eos = true;
    return engine_->submit(std::move(request));
  }

  static std::vector<TokenId> tokens_of(ResponseStream stream) {
    std::vector<TokenId> ids;
    while (auto event = stream.next()) {
      if (event->token.token) ids.push_back(*event->token.token);
      if (event->token.finish) {
        EXPECT_EQ(*event->token.finish, FinishReason::kLength) << event->token.error;
        EXPECT_EQ(event->token.prefill.status, PrefillStatus::kReplayed);
      }
    }
    return ids;
  }

  static inline std::unique_ptr<Engine> engine_;
};

/// Compares, and after a tie goes on from the reference's token. Returns the number of ties.
int follow(const golden::Prompt& prompt, std::vector<TokenId> got,
           const std::function<std::vector<TokenId>(std::vector<TokenId>, int)>& resume) {
  int n_ties = 0;
  for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
    if (i >= got.size()) {
      ADD_FAILURE() << "stopped after " << i << " tokens";
      return n_ties;
    }
    if (got[i] == prompt.greedy[i]) continue;
    if (prompt.gaps[i] >= kTie) {
      ADD_FAILURE() << "token " << i << " after a prompt of " << prompt.tokens.size() << ": got " << got[i]
                    << ", expected " << prompt.greedy[i] << ", gap " << prompt.gaps[i];
      return n_ties;
    }
    ++n_ties;
    std::printf("tie: prompt of %zu tokens, token %zu: %d for %d, gap %g\n", prompt.tokens.size(), i, got[i],
                prompt.greedy[i], prompt.gaps[i]);
    std::vector<TokenId> longer = prompt.tokens;
    longer.insert(longer.end(), prompt.greedy.begin(), prompt.greedy.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    const auto rest = resume(longer, static_cast<int>(prompt.greedy.size() - i - 1));
    got.assign(prompt.greedy.begin(), prompt.greedy.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    got.insert(got.end(), rest.begin(), rest.end());
  }
  return n_ties;
}

TEST_F(Greedy, EqualsTransformersOnFiftyPrompts) {
  const auto& prompts = default_model_golden().prompts;
  ASSERT_GE(prompts.size(), 50u);
  std::vector<ResponseStream> streams;
  for (const golden::Prompt& prompt : prompts)
    streams.push_back(submit(prompt.tokens, static_cast<int>(prompt.greedy.size())));
  int n_ties = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_EQ(prompts[i].greedy.size(), 64u);
    n_ties += follow(prompts[i], tokens_of(std::move(streams[i])), [](std::vector<TokenId> tokens, int n) {
      return n > 0 ? tokens_of(submit(std::move(tokens), n)) : std::vector<TokenId>{};
    });
  }
  std::printf("%d ties in %zu prompts of 64 tokens\n", n_ties, prompts.size());
}

}  // namespace
}  // namespace monograph::e2e
