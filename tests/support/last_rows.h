// What a lane gives must not show which rows its last layer computes once K and V are stored: the same steps with all
// rows and with those that are sampled, replayed and eager.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/lane.h"

namespace monograph::testing {

enum class HowRun { kReplayed, kEager, kEagerInBucket };

/// All that steps leave: the logits and results of rows that sample, one after another, and the cache's used blocks.
struct Left {
  std::vector<std::vector<float>> logits;
  std::vector<SampledRow> rows;
  std::vector<std::byte> blocks;
};

/// Steps of a lane whose buckets go up to 160 and whose rows up to 6.
class LastRowsSteps {
 public:
  LastRowsSteps(Lane& lane, HowRun how) : lane_(lane), how_(how) {
    for (unsigned i = 0; int n : {33, 1, 50, 17, 5, 20, 150, 130, 140}) {
      sequences_.push_back(lane.sequence(n, 40 + i, 1 + 3 * static_cast<int>(i), static_cast<int>(i) % 8));
      ++i;
    }
  }

  Left run() {
    lane_.fill_cache(0xff);
    step({{0, 33}, {1, 1}, {2, 50}, {3, 17}, {4, 5}, {5, 20}});  // as many rows as there can be
    step({{6, 150}});
    step({{7, 100, false}});  // nothing is sampled
    for (std::size_t i : {0, 2}) sequences_[i].tokens.push_back(7);
    step({{0, 1}, {7, 30}, {2, 1}});  // the rest of a prompt between decode rows
    TestSequence& hit = sequences_[8];
    hit.blocks[0] = sequences_[6].blocks[0];
    std::copy_n(sequences_[6].tokens.begin(), 64, hit.tokens.begin());
    hit.cached = 64;
    step({{8, 40, false}});
    step({{8, 36}});
    for (const TestSequence& s : sequences_)
      for (int b = 0; 64 * b < s.cached; ++b)
        for (std::byte byte : lane_.block_bytes(s.blocks[static_cast<std::size_t>(b)])) left_.blocks.push_back(byte);
    return std::move(left_);
  }

 private:
  struct Part {
    std::size_t sequence;
    int n_tokens;
    bool samples = true;
  };

  void step(const std::vector<Part>& parts) {
    Batch batch;
    for (const Part& part : parts) {
      lane_.add(batch, sequences_[part.sequence], part.n_tokens, true, part.samples);
      SlotSampling& sampling = batch.rows.back().sampling;
      sampling.n_logprobs = kMaxLogprobs;
      if (part.sequence % 2 == 0) sampling.repetition_penalty = 1.5f, sampling.temperature = 0.8f, sampling.seed = 5;
    }
    lane_.poison_activations();
    Runner& runner = lane_.runner();
    const int bucket = runner.check(batch).bucket;
    ASSERT_GT(bucket, 0);
    const StepResult result =
        how_ == HowRun::kReplayed ? runner.run(batch) : runner.run_eager(batch, how_ == HowRun::kEager ? 0 : bucket);
    ASSERT_EQ(result.replayed, how_ == HowRun::kReplayed);
    for (std::size_t row = 0; row < parts.size(); ++row)
      if (parts[row].samples) {
        left_.logits.push_back(lane_.logits(static_cast<int>(row)));
        left_.rows.push_back(result.rows[row]);
      }
  }

  Lane& lane_;
  HowRun how_;
  std::vector<TestSequence> sequences_;
  Left left_;
};

inline void expect_same(const Left& left, const Left& wanted) {
  ASSERT_EQ(left.logits.size(), wanted.logits.size());
  for (std::size_t i = 0; i < wanted.logits.size(); ++i) {
    EXPECT_TRUE(same_bits(left.logits[i], wanted.logits[i])) << "logits of row " << i;
    EXPECT_EQ(0, std::memcmp(&left.rows[i], &wanted.rows[i], sizeof(SampledRow))) << "result of row " << i;
  }
  EXPECT_TRUE(left.blocks == wanted.blocks) << "K and V";
}

inline void expect_last_rows_do_not_show(LaneOptions options) {
  options.runner.last_layer = LastLayer::kAll;
  Lane all(options);
  options.runner.last_layer = LastLayer::kSampled;
  Lane sampled(options);
  for (std::size_t i = 0; i < all.runner().captures().size(); ++i) {
    const CaptureRecord &with = sampled.runner().captures()[i], &without = all.runner().captures()[i];
    const int max_rows = with.family == "decode" ? options.runner.max_seqs : options.runner.max_rows;
    // A GPU's kernels depend on how many rows there are; elsewhere it is one op more.
    if (options.device == "cpu") {
      EXPECT_EQ(with.nodes, without.nodes + (with.bucket >= max_rows ? 1 : 0)) << with.family << with.bucket;
    }
  }
  const Left wanted = LastRowsSteps(all, HowRun::kReplayed).run();
  ASSERT_EQ(wanted.logits.size(), 11u);
  for (const auto& logits : wanted.logits)
    ASSERT_TRUE(std::ranges::all_of(logits, [](float z) { return std::isfinite(z); }));
  for (Lane* lane : {&all, &sampled})
    for (HowRun how : {HowRun::kReplayed, HowRun::kEager, HowRun::kEagerInBucket}) {
      SCOPED_TRACE(std::string(lane == &all ? "all rows" : "sampled rows") + ", way " +
                   std::to_string(static_cast<int>(how)));
      expect_same(LastRowsSteps(*lane, how).run(), wanted);
    }
}

}  // namespace monograph::testing
