// The tiny models answer as transformers does, whatever way a prompt takes through the lane. (issue: Fidelity, Formats)
#include <gtest/gtest.h>

#include <algorithm>
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

/// How a prompt of some length comes to its last row.
struct Way {
  int length;
  int chunk;   ///< Tokens of a step.
  int shared;  ///< Tokens found in the prefix cache; whole blocks, so there are hits from 65 tokens on.
};

std::string text_of(const Way& way) {
  return std::to_string(way.length) + " tokens in chunks of " + std::to_string(way.chunk) + " after " +
         std::to_string(way.shared) + " found";
}

std::vector<Way> every_way(int longest) {
  std::vector<Way> ways;
  for (int length : lengths(1, longest))
    for (int shared = 0; shared < length; shared += 64)
      for (int chunk : {length, 64, 7, 1}) ways.push_back({length, chunk, shared});
  return ways;
}

/// So many sequences of any length fit into the largest bucket, beside the owner of the shared blocks.
constexpr int kPacked = 4;

class EveryLength : public testing::TestWithParam<std::string> {
 protected:
  golden::Golden golden_ = golden::read(golden_file(GetParam()));
  const golden::Prompt& prompt_ = golden_.prompts.at(0);
  Expected expected_{prompt_};
  int longest_ = static_cast<int>(prompt_.tokens.size());
  Rig rig_{tiny_model(GetParam()), {}};

  /// Every way, `n_at_once` sequences in each step, each with its own way; all rows of all steps against the reference.
  void expect_like_reference(int n_at_once);
};

void EveryLength::expect_like_reference(int n_at_once) {
  Sequence owner = rig_.start(prompt_.tokens, kPacked);
  rig_.advance(owner, longest_);
  std::vector<Way> ways = every_way(longest_);
  std::shuffle(ways.begin(), ways.end(), std::mt19937(11));  // so that any way meets any other
  struct Running {
    Sequence sequence;
    Way way;
  };
  std::vector<Running> running;
  const auto start = [&](int history_row) {
    const Way way = ways.back();
    ways.pop_back();
    Running one{rig_.start(first(prompt_, way.length), history_row), way};
    if (way.shared > 0) rig_.share_prefix(one.sequence, owner, way.shared);
    return one;
  };
  while (static_cast<int>(running.size()) < n_at_once) running.push_back(start(static_cast<int>(running.size())));
  while (!running.empty()) {
    std::vector<Piece> pieces;
    for (Running& r : running)
      pieces.push_back({&r.sequence, std::min(r.way.chunk, r.way.length - r.sequence.n_cached)});
    const StepOutput output = rig_.step(pieces);
    for (std::size_t i = 0; i < running.size(); ++i)
      EXPECT_LE(relative_error(output.logits[i], expected_.at(running[i].sequence.n_cached)), kTolerance)
          << "row " << running[i].sequence.n_cached << " of " << text_of(running[i].way) << ", slot " << i;
    for (std::size_t i = running.size(); i-- > 0;) {
      if (running[i].sequence.n_cached < running[i].way.length) continue;
      rig_.drop(running[i].sequence);
      if (ways.empty())
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      else
        running[i] = start(running[i].sequence.history_row);
    }
  }
}

TEST_P(EveryLength, EveryWayAlone) { expect_like_reference(1); }

TEST_P(EveryLength, EveryWayPacked) { expect_like_reference(kPacked); }

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

/// One model in every container, with either spelling of its configuration and its template in each place: the same
/// numbers in, so the same bits out.
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

using Names = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(Formats, SameBits,
                         testing::Values(Names{"formats-bf16.gguf", "formats-bf16-split.gguf",
                                               "formats-bf16-single-old", "formats-bf16-sharded-new"},
                                         Names{"formats-f16.gguf", "formats-f16-split.gguf", "formats-f16-single-new",
                                               "formats-f16-sharded-old"},
                                         Names{"formats-f32.gguf", "formats-f32-split.gguf", "formats-f32-single-new",
                                               "formats-f32-sharded-old"}));

}  // namespace
}  // namespace monograph::e2e
