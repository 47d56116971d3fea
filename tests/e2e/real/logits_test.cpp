// Logits of the default model are those of transformers in fp32 on the same dequantised weights. (issue: Fidelity)
#include <gtest/gtest.h>

#include "tests/e2e/real/default_model.h"
#include "tests/e2e/support/rig.h"

namespace monograph::e2e {
namespace {

constexpr double kTolerance = 1e-3;

RigOptions rig_options(const std::string& target, int threads) {
  RigOptions options;
  options.backend.device = "cpu";
  options.backend.cpu_target = target;
  options.backend.threads = threads;
  options.prefill_buckets = {16, 64, 256, 512, 1024, 1536};
  options.max_seq_len = 1600;
  return options;
}

TEST(RealModel, LogitsOfEveryStoredRow) {
  Rig rig(default_model_path(), rig_options("", 0));
  int n_rows = 0;
  double worst = 0;
  for (const golden::Prompt& prompt : default_model_golden().prompts)
    for (std::size_t i = 0; i < prompt.rows.size(); ++i, ++n_rows) {
      const auto tokens = std::span(prompt.tokens).first(static_cast<std::size_t>(prompt.rows[i]) + 1);
      const double error = relative_error(rig.one_shot(tokens), prompt.logits[i]);
      EXPECT_LE(error, kTolerance) << tokens.size() << " tokens";
      worst = std::max(worst, error);
    }
  EXPECT_GE(n_rows, 50) << "the last row of each prompt";
  std::printf("largest relative difference in %d rows: %.2g\n", n_rows, worst);
}

TEST(RealModel, SameBitsChunkedPackedAndDecoded) {
  for (int threads : {1, 2, 3}) {
    Rig rig(default_model_path(), rig_options("", threads));
    const auto& tokens = default_model_golden().prompts.back().tokens;
    ASSERT_GE(tokens.size(), 700u);
    const auto prompt = std::span(tokens).first(600);
    static const Logits expected = rig.one_shot(prompt, Mode::kEager);
    EXPECT_TRUE(same_bits(rig.one_shot(prompt), expected)) << threads;
    EXPECT_TRUE(same_bits(rig.chunked(prompt, 64), expected)) << threads;
    EXPECT_TRUE(same_bits(rig.chunked(prompt, 77), expected)) << threads;
    Sequence sequence = rig.start(prompt), other = rig.start(std::span(tokens).last(100), 1);
    rig.advance(sequence, 599);
    const Piece pieces[] = {{&other, 100}, {&sequence, 1, false}};
    EXPECT_TRUE(same_bits(rig.step(pieces).logits[1], expected)) << threads;
  }
}

}  // namespace
}  // namespace monograph::e2e
