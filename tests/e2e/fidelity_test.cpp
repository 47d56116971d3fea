// The tiny models answer as transformers does, whatever way a prompt takes through the lane. (issue: Fidelity, Formats)
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/e2e/support/rig.h"
#include "tests/golden/golden.h"

namespace monograph::e2e {
namespace {

constexpr double kTolerance = 1e-4;

/// A row of the reference and how to name it in a failure.
struct Expected {
  const golden::Prompt& prompt;
  const Logits& at(int length) const {
    for (std::size_t i = 0; i < prompt.rows.size(); ++i)
      if (prompt.rows[i] == length - 1) return prompt.logits[i];
    throw std::runtime_error("the golden has no row for length " + std::to_string(length));
  }
};

std::span<const std::int32_t> first(const golden::Prompt& prompt, int n) {
  return std::span(prompt.tokens).first(static_cast<std::size_t>(n));
}

/// 1..longest, or those where something can change: the first ones, block edges, and every tenth or so.
std::vector<int> lengths(int from, int longest) {
  std::vector<int> chosen;
  for (int n = from; n <= longest; ++n)
    if (full() || n <= 4 || n % 11 == 0 || std::abs(n % 64 - 1) <= 1 || n == longest) chosen.push_back(n);
  return chosen;
}

class EveryLength : public testing::TestWithParam<std::string> {
 protected:
  golden::Golden golden_ = golden::read(golden_file(GetParam()));
  const golden::Prompt& prompt_ = golden_.prompts.at(0);
  Expected expected_{prompt_};
  int longest_ = static_cast<int>(prompt_.tokens.size());
  Rig rig_{tiny_model(GetParam()), {}};
};

TEST_P(EveryLength, AloneInOneStep) {
  for (int length : lengths(1, longest_))
    EXPECT_LE(relative_error(rig_.one_shot(first(prompt_, length)), expected_.at(length)), kTolerance) << length;
}

TEST_P(EveryLength, InChunks) {
  for (int chunk : {1, 7, 64}) {
    Sequence sequence = rig_.start(prompt_.tokens);
    while (sequence.n_cached < longest_) {
      const Logits logits = rig_.advance(sequence, std::min(chunk, longest_ - sequence.n_cached));
      EXPECT_LE(relative_error(logits, expected_.at(sequence.n_cached)), kTolerance)
          << "chunk " << chunk << ", length " << sequence.n_cached;
    }
    rig_.drop(sequence);
  }
}

TEST_P(EveryLength, AfterAPrefixHit) {
  Sequence owner = rig_.start(prompt_.tokens, 1);
  rig_.advance(owner, longest_);
  for (int length : lengths(65, longest_)) {
    Sequence sequence = rig_.start(first(prompt_, length));
    rig_.share_prefix(sequence, owner, length > 128 ? 128 : 64);
    EXPECT_LE(relative_error(rig_.advance(sequence, length - sequence.n_cached), expected_.at(length)), kTolerance)
        << length;
    rig_.drop(sequence);
  }
}

TEST_P(EveryLength, PackedWithOthers) {
  std::mt19937 random(11);
  for (int length : lengths(1, longest_)) {
    std::vector<Sequence> sequences;
    std::vector<Piece> pieces;
    for (int r = 0; r < 4; ++r) {
      const int n = r == length % 4 ? length : 1 + static_cast<int>(random() % 40);
      sequences.push_back(rig_.start(first(prompt_, n), r));
    }
    for (Sequence& s : sequences) pieces.push_back({&s, static_cast<int>(s.tokens.size())});
    const StepOutput output = rig_.step(pieces);
    for (std::size_t r = 0; r < pieces.size(); ++r)
      EXPECT_LE(relative_error(output.logits[r], expected_.at(pieces[r].n_tokens)), kTolerance)
          << pieces[r].n_tokens << " tokens in slot " << r;
    for (Sequence& s : sequences) rig_.drop(s);
  }
}

TEST_P(EveryLength, GreedyTokens) {
  for (const golden::Prompt& prompt : golden_.prompts) {
    Sequence sequence = rig_.start(prompt.tokens);
    Logits logits = rig_.advance(sequence, static_cast<int>(prompt.tokens.size()));
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      if (argmax(logits) != prompt.greedy[i]) {
        EXPECT_LT(prompt.gaps[i], 1e-3) << "token " << i << " after " << prompt.tokens.size();
      }
      sequence.tokens.push_back(prompt.greedy[i]);
      logits = rig_.advance(sequence, 1, /*prefill=*/false);
    }
    rig_.drop(sequence);
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, EveryLength,
                         testing::Values("llama-gqa", "llama-mha", "llama3-rope", "llama-yarn", "qwen2-bias",
                                         "qwen3-qknorm"),
                         test_name);

/// Every golden there is: all formats and types, on the rows it holds.
std::vector<std::string> all_goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MONOGRAPH_SOURCE_DIR "/tests/golden/logits"))
    if (std::filesystem::exists(tiny_model(entry.path().stem().string()))) names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class EveryFile : public testing::TestWithParam<std::string> {};

TEST_P(EveryFile, MatchesTransformers) {
  const golden::Golden golden = golden::read(golden_file(GetParam()));
  Rig rig(tiny_model(GetParam()), {});
  for (const golden::Prompt& prompt : golden.prompts)
    for (int row : prompt.rows) {
      if (prompt.rows.size() > 20 && row % 32 != 31) continue;  // EveryLength has them all
      EXPECT_LE(relative_error(rig.one_shot(first(prompt, row + 1)), Expected{prompt}.at(row + 1)), kTolerance)
          << "row " << row;
    }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EveryFile, testing::ValuesIn(all_goldens()), test_name);

TEST(Goldens, CoverEveryFormat) { EXPECT_GE(all_goldens().size(), 25u); }

/// One model in every format: the same numbers in, so the same bits out.
class SameBits : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(SameBits, InEveryFormat) {
  const golden::Prompt prompt = golden::read(golden_file(GetParam()[0])).prompts.at(0);
  std::vector<Logits> reference;
  std::string chat_template;
  for (const std::string& name : GetParam()) {
    Rig rig(tiny_model(name), {});
    std::vector<Logits> logits;
    for (int length : {1, 2, 63, 64, 65, 130}) logits.push_back(rig.one_shot(first(prompt, length)));
    if (reference.empty()) {
      reference = logits;
      chat_template = rig.files().tokenizer().chat_template;
    }
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(same_bits(logits[i], reference[i])) << name << " " << i;
    EXPECT_FALSE(rig.files().tokenizer().chat_template.empty()) << name;
    EXPECT_EQ(rig.files().tokenizer().chat_template, chat_template) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SameBits,
                         testing::Values(std::vector<std::string>{"formats-bf16.gguf", "formats-bf16-split.gguf",
                                                                  "formats-bf16-single-old",
                                                                  "formats-bf16-sharded-new"},
                                         std::vector<std::string>{"formats-f16.gguf", "formats-f16-sharded-old"},
                                         std::vector<std::string>{"formats-f32-split.gguf", "formats-f32-single-new"}));

}  // namespace
}  // namespace monograph::e2e
