// The lane's promises on the CPU device: replay equals eager, and a sequence's bits depend on nothing but its own
// tokens.
#include "graph/runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "monograph/error.h"
#include "tests/support/lane.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

class RunnerTest : public ::testing::TestWithParam<std::string> {
 protected:
  static LaneOptions on_device() {
    LaneOptions options;
    options.device = GetParam();
    return options;
  }
};

/// Logits of the last token of `s`, computed alone, eager, in one piece: what every other schedule must equal.
std::vector<float> oracle(const TestSequence& s, LaneOptions options) {
  options.runner.enable_graphs = false;
  options.runner.max_eager_tokens = options.runner.max_seq_len;
  Lane lane(options);
  TestSequence fresh = s;
  fresh.cached = 0;
  std::iota(fresh.blocks.begin(), fresh.blocks.end(), 1);
  Batch batch;
  lane.add(batch, fresh, static_cast<int>(fresh.tokens.size()));
  lane.runner().run(batch);
  return lane.logits(0);
}

TEST_P(RunnerTest, ReplayEqualsEagerInEveryBucket) {  // I6, R10: at bucket, bucket - 1 and the least size
  for (bool skip_padding : {true, false}) {
    LaneOptions options = on_device();
    options.runner.skip_padding = skip_padding;
    Lane lane(options);
    int least = 1;
    for (int bucket : options.runner.prefill_buckets) {
      for (int n : {least, bucket - 1, bucket}) {
        TestSequence s = lane.sequence(n, static_cast<unsigned>(n), 1);
        Batch batch;
        lane.fill_cache(0xff);  // NaN everywhere: whatever is read without having been written shows
        lane.add(batch, s, n);
        const StepResult replay = lane.runner().run(batch);
        EXPECT_EQ(replay.status, PrefillStatus::kReplayed);
        EXPECT_EQ(replay.bucket, bucket);
        const auto logits = lane.logits(0);
        const auto block = lane.block_bytes(1);
        lane.fill_cache(0xff);
        const StepResult eager = lane.runner().run_eager(batch);
        EXPECT_TRUE(same_bits(logits, lane.logits(0))) << n << " tokens in bucket " << bucket;
        EXPECT_EQ(block, lane.block_bytes(1));
        EXPECT_EQ(replay.rows[0].token, eager.rows[0].token);
        lane.runner().run_eager(batch, bucket);
        EXPECT_TRUE(same_bits(logits, lane.logits(0))) << "eager in the bucket's shape";
        for (float x : logits) ASSERT_TRUE(std::isfinite(x));
      }
      least = bucket + 1;
    }
  }
}

TEST_P(RunnerTest, ChunksPackingAndDecodeKeepTheBits) {  // D8, R11
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    LaneOptions options = on_device();
    options.activation_dtype = dtype;
    Lane lane(options);
    TestSequence s = lane.sequence(130, 5, 1);
    const auto expected = oracle(s, options);
    for (int chunk : {1, 7, 64, 130}) {
      TestSequence again = s;
      StepResult last;
      while (again.cached < 130) {
        Batch batch;
        const int n = std::min(chunk, 130 - again.cached);
        lane.add(batch, again, n, true, again.cached + n == 130);
        last = lane.runner().run(batch);
        ASSERT_EQ(last.status, PrefillStatus::kReplayed);
      }
      EXPECT_TRUE(same_bits(lane.logits(0), expected)) << "chunks of " << chunk;
    }
    // The last token as a decode row, alone and among others, in both families.
    TestSequence prefix = s;
    Batch first;
    lane.add(first, prefix, 129, true, false);
    lane.runner().run(first);
    Batch decode;
    lane.add(decode, prefix, 1, false);
    const StepResult step = lane.runner().run(decode);
    EXPECT_TRUE(step.replayed);
    EXPECT_EQ(step.status, PrefillStatus::kNotRequested);
    EXPECT_TRUE(same_bits(lane.logits(0), expected)) << "decode graph";

    TestSequence neighbour = lane.sequence(40, 6, 20, 1), other = lane.sequence(11, 7, 30, 2);
    prefix.cached = 129;
    Batch mixed;
    lane.add(mixed, neighbour, 40);
    lane.add(mixed, prefix, 1, false);
    lane.add(mixed, other, 11);
    const StepResult together = lane.runner().run(mixed);
    EXPECT_EQ(together.status, PrefillStatus::kReplayed);
    EXPECT_TRUE(same_bits(lane.logits(1), expected)) << "decode row of a mixed step";
    EXPECT_TRUE(same_bits(lane.logits(0), oracle(neighbour, options)));
    EXPECT_TRUE(same_bits(lane.logits(2), oracle(other, options)));
  }
}

TEST_P(RunnerTest, ThreadsDoNotChangeBits) {
  LaneOptions options = on_device();
  TestSequence s = Lane(options).sequence(100, 9, 1);
  const auto expected = oracle(s, options);
  for (int threads : {2, 3}) {
    options.threads = threads;
    EXPECT_TRUE(same_bits(oracle(s, options), expected)) << threads << " threads";
  }
}

TEST_P(RunnerTest, ASharedPrefixIsOnlyRead) {  // I5
  Lane lane(on_device());
  TestSequence first = lane.sequence(100, 11, 1);
  Batch batch;
  lane.add(batch, first, 100);
  lane.runner().run(batch);
  const auto shared = lane.block_bytes(1);
  TestSequence second = lane.sequence(90, 12, 20, 1);
  std::copy(first.tokens.begin(), first.tokens.begin() + 64, second.tokens.begin());
  second.blocks[0] = 1;  // the full first block is shared
  second.cached = 64;
  Batch hit;
  lane.add(hit, second, 26);
  EXPECT_EQ(lane.runner().run(hit).status, PrefillStatus::kReplayed);
  EXPECT_TRUE(same_bits(lane.logits(0), oracle(second, on_device())));
  EXPECT_EQ(lane.block_bytes(1), shared);
}

TEST_P(RunnerTest, PaddingWritesOnlyToScratchAndOthersStayUntouched) {  // I4, I5, S-47
  for (bool skip_padding : {true, false}) {
    LaneOptions options = on_device();
    options.runner.skip_padding = skip_padding;
    Lane lane(options);
    lane.fill_cache(0x3c);
    const auto before = lane.block_bytes(7);
    TestSequence s = lane.sequence(70, 13, 3);
    Batch batch;
    lane.add(batch, s, 70);
    lane.runner().run(batch);  // bucket 128: 58 padding tokens
    bool scratch_written = false;
    for (int block : lane.scratch()[0]) scratch_written |= lane.block_bytes(block) != before;
    EXPECT_EQ(scratch_written, !skip_padding);
    for (int block = 0; block < 64; ++block) {
      const bool own = block == 3 || block == 4;
      const bool scratch = std::count(lane.scratch()[0].begin(), lane.scratch()[0].end(), block) > 0;
      if (scratch) continue;
      EXPECT_EQ(lane.block_bytes(block) != before, own) << block;
    }
  }
}

TEST_P(RunnerTest, CaptureWritesOnlyToScratch) {  // S-35: everything a start-up runs leaves the cache's blocks alone
  LaneOptions options = on_device();
  options.runner.policy = GraphPolicy::kMeasured;
  Lane lane(options);
  for (int block = 0; block < 64; ++block) {
    if (std::count(lane.scratch()[0].begin(), lane.scratch()[0].end(), block)) continue;
    for (std::byte b : lane.block_bytes(block)) ASSERT_EQ(b, std::byte{0}) << "block " << block;
  }
}

TEST_P(RunnerTest, AShrinkingBatchLeavesNothingBehind) {  // I3, S-41, in interleaved families (S-32)
  Lane lane(on_device());
  TestSequence probe = lane.sequence(20, 17, 50, 5);
  const auto expected = oracle(probe, on_device());
  std::mt19937 random(99);
  for (int round = 0; round < 60; ++round) {
    Batch big;
    std::vector<TestSequence> sequences;
    const int n_rows = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < n_rows; ++i)
      sequences.push_back(lane.sequence(1 + static_cast<int>(random() % 26), random(), 1 + 8 * i, i));
    for (auto& s : sequences) lane.add(big, s, static_cast<int>(s.tokens.size()));
    lane.runner().run(big);
    if (round % 2 == 0) {
      Batch decode;
      for (auto& s : sequences) {
        s.tokens.push_back(3);
        lane.add(decode, s, 1, false);
      }
      EXPECT_TRUE(lane.runner().run(decode).replayed);
    }
    TestSequence again = probe;
    Batch small;
    lane.add(small, again, 20);
    lane.runner().run(small);
    ASSERT_TRUE(same_bits(lane.logits(0), expected)) << "round " << round;
  }
}

TEST_P(RunnerTest, StartUpSaysWhyThereAreNoGraphs) {  // S-21, S-52
  const auto status_of = [](auto change) {
    LaneOptions options = on_device();
    options.runner.max_eager_tokens = 64;
    change(options);
    Lane lane(options);
    TestSequence s = lane.sequence(20, 1, 1);
    Batch batch;
    lane.add(batch, s, 20);
    const StepResult result = lane.runner().run(batch);
    EXPECT_FALSE(result.replayed);
    EXPECT_EQ(result.status, lane.runner().init_status());
    EXPECT_TRUE(same_bits(lane.logits(0), oracle(s, on_device()))) << "eager is right all the same";
    return result.status;
  };
  BackendCapabilities none;
  EXPECT_EQ(status_of([](LaneOptions& o) { o.runner.enable_graphs = false; }), PrefillStatus::kNotRequested);
  EXPECT_EQ(status_of([](LaneOptions& o) { o.runner.enable_prefill_graphs = false; }), PrefillStatus::kNotRequested);
  EXPECT_EQ(status_of([](LaneOptions& o) { o.n_scratch = 0; }), PrefillStatus::kScratchKvUnavailable);
  EXPECT_EQ(status_of([](LaneOptions& o) { o.n_scratch = 2; }), PrefillStatus::kScratchKvUnavailable);
  EXPECT_EQ(status_of([](LaneOptions& o) { o.runner.prefill_buckets.clear(); }), PrefillStatus::kCaptureUnavailable);
  EXPECT_EQ(status_of([](LaneOptions& o) { o.runner.topology.tensor_parallel = 2; }),
            PrefillStatus::kTopologyNotSupported);
  EXPECT_EQ(status_of([&](LaneOptions& o) { o.capabilities = &none; }), PrefillStatus::kAttentionBackendUnsupported);
}

TEST_P(RunnerTest, StrictMakesADegradationFatal) {  // D6
  LaneOptions options = on_device();
  options.runner.strict = true;
  options.n_scratch = 0;
  EXPECT_THROW(Lane lane(options), Error);
}

TEST_P(RunnerTest, AFallbackIsCountedOnceUnderItsReason) {  // S-87, S-88
  LaneOptions options = on_device();
  options.runner.max_rows = 2;
  options.runner.max_eager_tokens = 400;
  Lane lane(options);
  TestSequence long_one = lane.sequence(200, 1, 1);
  Batch tokens;
  lane.add(tokens, long_one, 200);
  EXPECT_EQ(lane.runner().check(tokens).status, PrefillStatus::kInputTokensExceedCaptureLimit);
  EXPECT_EQ(lane.runner().stats().fallbacks[static_cast<int>(PrefillStatus::kInputTokensExceedCaptureLimit)], 0)
      << "PREPARE leaves no trace";
  EXPECT_EQ(lane.runner().run(tokens).status, PrefillStatus::kInputTokensExceedCaptureLimit);
  EXPECT_TRUE(same_bits(lane.logits(0), oracle(long_one, on_device())));
  EXPECT_EQ(lane.runner().stats().fallbacks[static_cast<int>(PrefillStatus::kInputTokensExceedCaptureLimit)], 1);
  Batch rows;
  std::vector<TestSequence> three;
  for (int i = 0; i < 3; ++i) three.push_back(lane.sequence(5, i, 10 + 8 * i, i));
  for (auto& s : three) lane.add(rows, s, 5);
  EXPECT_EQ(lane.runner().run(rows).status, PrefillStatus::kRequestCountExceedCaptureLimit);
  EXPECT_TRUE(same_bits(lane.logits(2), oracle(three[2], on_device())));
}

TEST_P(RunnerTest, AStepTellsItsTimes) {
  for (const bool timed : {false, true}) {
    LaneOptions options = on_device();
    options.runner.time_steps = timed;
    Lane lane(options);
    TestSequence s = lane.sequence(20, 1, 1);
    Batch batch;
    lane.add(batch, s, 20);
    for (const StepResult& result : {lane.runner().run(batch), lane.runner().run_eager(batch)}) {
      EXPECT_GT(result.launch_us, 0);
      EXPECT_EQ(result.device_us > 0, timed);
    }
  }
}

TEST_P(RunnerTest, BlocksAboveTheLimitAreRefused) {
  Lane lane(on_device());
  TestSequence s = lane.sequence(20, 1, 9);
  Batch batch;
  lane.add(batch, s, 20);
  lane.runner().limit_blocks(9);
  EXPECT_THROW(lane.runner().run(batch), Error);
  lane.runner().limit_blocks(10);
  EXPECT_NO_THROW(lane.runner().run(batch));
}

TEST_P(RunnerTest, ABatchThatCannotRunIsAnError) {
  Lane lane(on_device());
  TestSequence s = lane.sequence(20, 1, 1);
  Batch batch;
  lane.add(batch, s, 20);
  batch.rows[0].block_tables[0][0] = 64;
  try {
    lane.runner().run(batch);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a batch that cannot run: block id 64, ids end at 63");
  }
}

INSTANTIATE_TEST_SUITE_P(EachDevice, RunnerTest, ::testing::ValuesIn(testing::devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace monograph
