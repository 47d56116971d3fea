// The lane's promises on the CPU device: replay equals eager, and a sequence's bits depend on nothing but its own
// tokens.
#include "graph/runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
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
  fresh.cached = fresh.history_row = 0;
  std::iota(fresh.blocks.begin(), fresh.blocks.end(), 1);
  Batch batch;
  lane.add(batch, fresh, static_cast<int>(fresh.tokens.size()));
  lane.runner().run(batch);
  return lane.logits(0);
}

/// R10 in small: each bucket at its fullest, one less and its least; both types; with and without a cached prefix; both
/// ways of padding; NaN in every activation, in the cache and in scratch, wild ids in the padding.
struct Case {
  std::string device;
  DType dtype;
  int n_kv_heads;  // of 4: 4 is the packed layout (MHA), 2 and 1 the separate one (GQA, MQA) (S-58)
  int prefix;
  bool skip_padding;
};

class EveryBucket : public ::testing::TestWithParam<Case> {
 protected:
  static LaneOptions options() {
    LaneOptions options;
    options.device = GetParam().device;
    options.activation_dtype = GetParam().dtype;
    options.model.n_kv_heads = GetParam().n_kv_heads;
    options.model.pad_token_id = std::numeric_limits<std::int32_t>::max();
    options.runner.skip_padding = GetParam().skip_padding;
    options.runner.decode_buckets = {};  // else one token would ride there
    return options;
  }
};

TEST_P(EveryBucket, R10_PG12_ReplayEqualsEager) {  // I6
  const LaneOptions options = this->options();
  Lane lane(options);
  const int prefix = GetParam().prefix;
  int least = 1;
  for (int bucket : options.runner.prefill_buckets) {
    for (int n : {least, bucket - 1, bucket}) {
      SCOPED_TRACE(std::to_string(n) + " tokens in bucket " + std::to_string(bucket));
      TestSequence s = lane.sequence(prefix + n, static_cast<unsigned>(n), 1);
      const auto run = [&](auto step) {
        lane.fill_cache(0xff);  // whatever is read without having been written shows
        TestSequence fresh = s;
        if (prefix > 0) {
          Batch before;
          lane.add(before, fresh, prefix, true, false);
          lane.runner().run(before);
        }
        lane.poison_activations();
        Batch batch;
        lane.add(batch, fresh, n);
        step(batch);
        std::vector<std::byte> blocks;
        for (int block = 1; block <= (prefix + n + 63) / 64; ++block)
          for (std::byte b : lane.block_bytes(block)) blocks.push_back(b);
        return std::make_pair(lane.logits(0), blocks);
      };
      const auto replay = run([&](const Batch& batch) {
        const StepResult result = lane.runner().run(batch);
        EXPECT_EQ(result.status, PrefillStatus::kReplayed);
        EXPECT_EQ(result.bucket, bucket);
      });
      for (int capacity : {0, bucket}) {
        const auto eager = run([&](const Batch& batch) { lane.runner().run_eager(batch, capacity); });
        EXPECT_TRUE(same_bits(replay.first, eager.first)) << "capacity " << capacity;
        EXPECT_EQ(replay.second, eager.second) << "K and V, capacity " << capacity;
      }
      for (float x : replay.first) ASSERT_TRUE(std::isfinite(x));
    }
    least = bucket + 1;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& device : testing::devices())
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (int n_kv_heads : {4, 2, 1})
        for (int prefix : {0, 70})
          for (bool skip_padding : {true, false})
            if (device == "cpu" || dtype == DType::kBF16)
              all.push_back({device, dtype, n_kv_heads, prefix, skip_padding});
  return all;
}

INSTANTIATE_TEST_SUITE_P(R10, EveryBucket, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return c.device + (c.dtype == DType::kF32 ? "_f32" : "_bf16") + "_kv" + std::to_string(c.n_kv_heads) + "_prefix" +
         std::to_string(c.prefix) + (c.skip_padding ? "_skip" : "_pad");
});

// A one-token prompt, or what a prefix hit leaves, replays the decode graph that fits it; its bits and status are those
// of any prefill. Two tokens do not fit there.
TEST_P(RunnerTest, OneTokenRowsRideTheDecodeGraphs) {
  LaneOptions options = on_device();
  options.runner.decode_buckets = {1, 2, 4};
  Lane lane(options);
  for (int n_rows : {1, 2, 3, 5}) {
    SCOPED_TRACE(std::to_string(n_rows) + " rows");
    const auto run = [&](auto step) {
      std::vector<TestSequence> sequences;
      Batch before, batch;
      for (int i = 0; i < n_rows; ++i)
        sequences.push_back(lane.sequence(21, 7u + static_cast<unsigned>(i), 1 + 2 * i, i));
      for (auto& s : sequences) lane.add(before, s, 20, true, false);
      lane.runner().run_eager(before, 0);
      for (auto& s : sequences) lane.add(batch, s, 1);
      step(batch);
      std::vector<std::vector<float>> logits;
      for (int i = 0; i < n_rows; ++i) logits.push_back(lane.logits(i));
      return logits;
    };
    const auto replays = lane.runner().stats().prefill_replays;
    const int wanted = n_rows == 1 ? 1 : n_rows == 2 ? 2 : n_rows == 3 ? 4 : options.runner.prefill_buckets.front();
    const auto replayed = run([&](const Batch& batch) {
      EXPECT_EQ(lane.runner().check(batch).bucket, wanted);
      const StepResult result = lane.runner().run(batch);
      EXPECT_EQ(result.status, PrefillStatus::kReplayed);
      EXPECT_EQ(result.bucket, wanted);
    });
    EXPECT_EQ(lane.runner().stats().prefill_replays, replays + 1);
    EXPECT_EQ(lane.runner().stats().decode_replays, 0);
    EXPECT_EQ(lane.runner().stats().bucket_hits.at(wanted), 1);
    const auto eager = run([&](const Batch& batch) { lane.runner().run_eager(batch, 0); });
    for (int i = 0; i < n_rows; ++i) EXPECT_TRUE(same_bits(replayed[i], eager[i])) << "row " << i;
  }
  TestSequence two = lane.sequence(2, 3, 1);
  Batch batch;
  lane.add(batch, two, 2);
  EXPECT_EQ(lane.runner().run(batch).bucket, options.runner.prefill_buckets.front());
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

/// The sampled row of a step whose penalties see all of `s`, whose first 128 tokens are another's blocks.
SampledRow after_a_hit(Lane& lane, TestSequence s, bool replayed, bool tells_what_was_found) {
  s.cached = 128;
  Batch batch;
  lane.add(batch, s, static_cast<int>(s.tokens.size()) - 128);
  SlotSampling& sampling = batch.rows[0].sampling;
  sampling.repetition_penalty = 100;
  sampling.n_logprobs = kMaxLogprobs;
  if (tells_what_was_found) batch.rows[0].found = std::span(s.tokens).first(128);
  const StepResult result = replayed ? lane.runner().run(batch) : lane.runner().run_eager(batch);
  EXPECT_EQ(result.replayed, replayed);
  return result.rows[0];
}

// Penalties count the tokens that a prefix hit skipped, in a chunk's step and in one of a single token, which rides the
// decode graph; and they come with the step: no copy, no other wait.
TEST_P(RunnerTest, D8_PenaltiesSeeWhatAPrefixHitSkipped) {
  Lane lane(on_device());
  const auto equal = [](const SampledRow& a, const SampledRow& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  for (int n : {129, 170}) {
    TestSequence whole = lane.sequence(n, 5, 1, 2);
    Batch batch;
    lane.add(batch, whole, 128, true, false);
    lane.runner().run(batch);
    const SampledRow expected = after_a_hit(lane, whole, true, false);  // its history row has all
    TestSequence hit = whole, dirt = lane.sequence(128, 6, 10, 3);
    hit.history_row = 3;
    std::ranges::fill(dirt.tokens, expected.token);  // which it would keep from being chosen
    for (bool replayed : {true, false}) {
      SCOPED_TRACE(std::to_string(n) + (replayed ? " tokens, replayed" : " tokens, eager"));
      Batch others;  // leaves its tokens in the history row that the hit gets
      dirt.cached = 0;
      lane.add(others, dirt, 128);
      lane.runner().run(others);
      const auto copies = lane.device().count(testing::DevicePoint::kCopy);
      const auto waits = lane.device().count(testing::DevicePoint::kWait);
      EXPECT_FALSE(equal(after_a_hit(lane, hit, replayed, false), expected)) << "no penalty shows";
      EXPECT_TRUE(equal(after_a_hit(lane, hit, replayed, true), expected));
      EXPECT_EQ(lane.device().count(testing::DevicePoint::kCopy), copies);
      EXPECT_EQ(lane.device().count(testing::DevicePoint::kWait), waits + 2) << "one for each step";
    }
  }
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
    lane.fill_cache(0x3c);
    TestSequence whole = lane.sequence(128, 14, 3);
    Batch exact;
    lane.add(exact, whole, 128);
    lane.runner().run(exact);  // an exact fit: the sentinel is empty
    for (int block : lane.scratch()[0]) EXPECT_EQ(lane.block_bytes(block), before) << "scratch of an empty sentinel";
    lane.fill_cache(0x3c);
    lane.runner().run(batch);
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
  options.cache_byte = 0x3c;
  options.warm_up = true;
  for (bool skip_padding : {true, false}) {
    options.runner.skip_padding = skip_padding;
    Lane lane(options);
    for (int block = 0; block < 64; ++block) {
      if (std::count(lane.scratch()[0].begin(), lane.scratch()[0].end(), block)) continue;
      for (std::byte b : lane.block_bytes(block)) ASSERT_EQ(b, std::byte{0x3c}) << "block " << block;
    }
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
  EXPECT_EQ(status_of([&](LaneOptions& o) { o.capabilities = none; }), PrefillStatus::kAttentionBackendUnsupported);
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

// What is larger than any buffer is told in numbers, graph or eager; nothing was touched.
TEST_P(RunnerTest, AStepAboveEveryBufferIsAnError) {
  LaneOptions options = on_device();
  options.runner.enable_graphs = false;
  options.runner.prefill_buckets = options.runner.decode_buckets = {};
  options.runner.max_eager_tokens = 16;
  Lane lane(options);
  const auto error = [&](int n_rows, int n_tokens) -> std::string {
    Batch batch;
    for (int i = 0; i < n_rows; ++i) {
      TestSequence s = lane.sequence(n_tokens, static_cast<unsigned>(i), 1 + i);
      lane.add(batch, s, n_tokens);
    }
    try {
      lane.runner().run(batch);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
    return "ran";
  };
  EXPECT_EQ(error(1, 17), "a step of 17 tokens in 1 rows: at most 16 and 8 fit");
  EXPECT_EQ(error(9, 1), "a step of 9 tokens in 9 rows: at most 16 and 8 fit");
  EXPECT_EQ(error(8, 2), "ran");
  EXPECT_EQ(error(1, 16), "ran");
}

// A decode graph has one token a row. What is longer runs eager in the same step, is counted under its reason, and is
// right.
TEST_P(RunnerTest, ADecodeRowOfTwoTokensRunsEager) {
  Lane lane(on_device());
  TestSequence s = lane.sequence(20, 1, 1);
  Batch prompt, rest;
  lane.add(prompt, s, 18);
  lane.runner().run(prompt);
  lane.add(rest, s, 2, false);
  const StepResult result = lane.runner().run(rest);
  EXPECT_FALSE(result.replayed);
  EXPECT_EQ(result.status, PrefillStatus::kNotRequested) << "it has no prefill work";
  EXPECT_EQ(lane.runner().stats().decode_misses[static_cast<std::size_t>(PrefillStatus::kInputMetadataInvalid)], 1);
  EXPECT_TRUE(same_bits(lane.logits(0), oracle(s, on_device())));
  for (GraphRole role : {GraphRole::kTargetVerify, GraphRole::kEmbeddingPrefill, GraphRole::kMtpDraftPrefill})
    EXPECT_EQ(lane.runner().staging(role), nullptr) << "a family that this milestone has not";
}

// F1: one capture serves every layout, with and without prefixes and decode rows.
TEST_P(RunnerTest, S46_PG06_PG08_OneCaptureManyLayouts) {
  LaneOptions options = on_device();
  options.runner.prefill_buckets = {64, 256};
  options.runner.max_seqs = 8;
  Lane lane(options);
  const std::vector<std::vector<int>> layouts = {
      {24, 32}, {64}, {32, 32}, {16, 16, 16, 16}, {7, 16, 1, 9}, {1, 17, 31, 200}, {1, 1, 1, 1, 1, 1}, {63, 1}};
  for (const auto& lengths : layouts)
    for (bool with_prefix : {false, true})
      for (bool with_decode : {false, true}) {
        std::vector<TestSequence> sequences;
        Batch batch;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          const int prefix = with_prefix ? 3 + 20 * static_cast<int>(i) : 0;
          const bool decodes = with_decode && i == lengths.size() - 1 && i > 0;
          const int n = decodes ? 1 : lengths[i];
          sequences.push_back(lane.sequence(prefix + (decodes ? 30 : 0) + n, static_cast<unsigned>(7 * i + 1),
                                            1 + 8 * static_cast<int>(i), static_cast<int>(i)));
          TestSequence& s = sequences.back();
          const int cached = static_cast<int>(s.tokens.size()) - n;
          Batch before;
          if (cached > 0) lane.add(before, s, cached, true, false);
          if (cached > 0) lane.runner().run(before);
        }
        for (TestSequence& s : sequences) {
          const int n = static_cast<int>(s.tokens.size()) - s.cached;
          const bool decodes = with_decode && &s == &sequences.back() && sequences.size() > 1;
          lane.add(batch, s, n, !decodes);
        }
        ASSERT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
        for (std::size_t i = 0; i < sequences.size(); ++i)
          EXPECT_TRUE(same_bits(lane.logits(static_cast<int>(i)), oracle(sequences[i], on_device())))
              << "row " << i << " of " << lengths.size() << ", prefix " << with_prefix << ", decode " << with_decode;
      }
}

// S-48: two groups, each with its own numbering; tables and scratch may come in any order.
TEST_P(RunnerTest, S48_TwoGroupsInPermutedOrder) {
  LaneOptions options = on_device();
  options.group_tags = {"full", "second"};
  options.scratch_tags = {"second", "full"};
  options.runner.skip_padding = false;
  Lane lane(options);
  lane.fill_cache(0xff);
  TestSequence s = lane.sequence(70, 5, 1);
  const auto expected = oracle(s, on_device());
  for (bool permuted : {false, true}) {
    TestSequence again = s;
    Batch batch;
    lane.add(batch, again, 70);
    if (permuted) {
      std::swap(batch.group_tags[0], batch.group_tags[1]);
      std::swap(batch.rows[0].block_tables[0], batch.rows[0].block_tables[1]);
    }
    EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
    EXPECT_TRUE(same_bits(lane.logits(0), expected)) << "permuted " << permuted;
    batch.group_tags[0] = "third";
    EXPECT_EQ(lane.runner().check(batch).status, PrefillStatus::kGraphInputShapeMismatch);
    EXPECT_THROW(lane.runner().run(batch), Error) << "no forward could run it";
  }
  options.scratch_tags = {"full"};
  EXPECT_THROW(Lane{options}, Error);
  options.scratch_tags = {"full", "full"};
  EXPECT_THROW(Lane{options}, Error);
  options.scratch_tags = {"full", "second", ""};
  EXPECT_THROW(Lane{options}, Error);
}

// S-22, S-116: what a backend without the capability sends to eager is right all the same.
TEST_P(RunnerTest, S22_FallbacksForLackOfACapabilityAreRight) {
  LaneOptions options = on_device();
  options.capabilities = BackendCapabilities{.prefill_graph = true, .mixed_rows = true};
  Lane no_prefix(options);
  TestSequence s = no_prefix.sequence(50, 3, 1);
  Batch first, second;
  no_prefix.add(first, s, 30);
  EXPECT_EQ(no_prefix.runner().run(first).status, PrefillStatus::kReplayed);
  no_prefix.add(second, s, 20);
  const StepResult continued = no_prefix.runner().run(second);
  EXPECT_EQ(continued.status, PrefillStatus::kPrefixCacheNotSupported);
  EXPECT_FALSE(continued.replayed);
  EXPECT_TRUE(same_bits(no_prefix.logits(0), oracle(s, on_device())));

  options.capabilities = BackendCapabilities{.prefill_graph = true, .paged_prefix = true};
  Lane no_mixed(options);
  TestSequence decoding = no_mixed.sequence(31, 4, 1), other = no_mixed.sequence(20, 5, 10, 1);
  Batch before, mixed;
  no_mixed.add(before, decoding, 30);
  no_mixed.runner().run(before);
  no_mixed.add(mixed, other, 20);
  no_mixed.add(mixed, decoding, 1, false);
  EXPECT_EQ(no_mixed.runner().run(mixed).status, PrefillStatus::kMixedPrefillDecodeNotSupported);
  EXPECT_TRUE(same_bits(no_mixed.logits(0), oracle(other, on_device())));
  EXPECT_TRUE(same_bits(no_mixed.logits(1), oracle(decoding, on_device())));
}

TEST_P(RunnerTest, NothingIsSilentlyLeftOut) {  // F5: what no forward of this build does is an error
  Lane lane(on_device());
  for (auto want : {+[](RowNeeds& n) { n.adapter = true; }, +[](RowNeeds& n) { n.features = true; },
                    +[](RowNeeds& n) { n.token_types = true; }, +[](RowNeeds& n) { n.publish_kv = true; },
                    +[](RowNeeds& n) { n.prompt_logits = true; }}) {
    TestSequence s = lane.sequence(20, 1, 1);
    Batch batch;
    lane.add(batch, s, 20);
    want(batch.rows[0].needs);
    EXPECT_FALSE(lane.runner().check(batch).ok());
    EXPECT_THROW(lane.runner().run(batch), Error);
  }
}

// S-14, D3: the measured policy goes by its times, says so, and changes no bit.
TEST_P(RunnerTest, S14_MeasuredPolicyPicksTheCheaperOne) {
  LaneOptions options = on_device();
  options.runner.policy = GraphPolicy::kMeasured;
  options.runner.known_times = {{16, {10, 40}}, {32, {60, 50}}, {64, {30, 90}}};
  Lane lane(options);
  const auto run = [&](int n) {
    TestSequence s = lane.sequence(n, static_cast<unsigned>(n), 1);
    Batch batch;
    lane.add(batch, s, n);
    EXPECT_EQ(lane.runner().check(batch).status, lane.runner().check(batch).status);
    const StepResult result = lane.runner().run(batch);
    EXPECT_TRUE(same_bits(lane.logits(0), oracle(s, on_device())));
    EXPECT_EQ(result.replayed, result.status == PrefillStatus::kReplayed);
    return result.status;
  };
  EXPECT_EQ(run(16), PrefillStatus::kReplayed);
  EXPECT_EQ(run(20), PrefillStatus::kEagerMeasuredFaster);
  EXPECT_EQ(run(32), PrefillStatus::kEagerMeasuredFaster);
  EXPECT_EQ(run(40), PrefillStatus::kReplayed);
  EXPECT_EQ(run(100), PrefillStatus::kReplayed) << "a bucket that nobody timed replays";
  EXPECT_EQ(lane.runner().stats().fallbacks[static_cast<int>(PrefillStatus::kEagerMeasuredFaster)], 2);
  EXPECT_EQ(lane.runner().bucket_times().at(32).eager_us, 50);
  options.runner.policy = GraphPolicy::kAlways;
  Lane always(options);
  TestSequence s = always.sequence(32, 1, 1);
  Batch batch;
  always.add(batch, s, 32);
  EXPECT_EQ(always.runner().run(batch).status, PrefillStatus::kReplayed) << "known times change nothing under always";
}

// PG07: between sparse buckets the measured policy does not pay for a bucket that is dearer than eager; what is wasted
// otherwise is counted.
TEST_P(RunnerTest, PG07_SparseBucketsCostNoMoreThanEager) {
  LaneOptions options = on_device();
  options.runner.policy = GraphPolicy::kMeasured;
  options.runner.prefill_buckets = {48, 160};
  options.runner.known_times = {{48, {48, 60}}, {160, {100, 160}}};  // us of a full step
  Lane lane(options);
  std::int64_t padding = 0;
  for (int n = 1; n <= 160; n += 3) {
    TestSequence s = lane.sequence(n, static_cast<unsigned>(n), 1);
    Batch batch;
    lane.add(batch, s, n);
    const StepResult result = lane.runner().run(batch);
    const double eager_us = n <= 48 ? 60.0 : 60.0 + (n - 48) * 100.0 / 112;
    const double graph_us = n <= 48 ? 48 : 100;
    EXPECT_LE(result.replayed ? graph_us : eager_us, 1.05 * eager_us) << n << " tokens";
    EXPECT_EQ(result.status == PrefillStatus::kEagerMeasuredFaster, eager_us < graph_us) << n << " tokens";
    padding += result.replayed ? result.bucket - n : 0;
  }
  EXPECT_EQ(lane.runner().stats().padding_tokens, padding);
}

TEST_P(RunnerTest, S14_EveryLengthReplaysInTheSmallestBucketUnderAlways) {
  LaneOptions options = on_device();
  options.runner.decode_buckets = {};  // else one token would ride there
  Lane lane(options);
  int previous = 0;
  for (int bucket : lane.options().runner.prefill_buckets) {
    TestSequence s = lane.sequence(previous + 1, 1, 1);
    Batch batch;
    lane.add(batch, s, previous + 1);
    EXPECT_EQ(lane.runner().run(batch).bucket, bucket);
    previous = bucket;
  }
}

// S-87..S-90: a counter per reason; the first occurrence is logged, then the 2nd, 4th, 8th ...; each line has numbers.
TEST_P(RunnerTest, S87_ReasonsAreCountedApartAndLoggedAtPowersOfTwo) {
  std::vector<std::string> lines;
  LaneOptions options = on_device();
  options.runner.max_rows = 2;
  options.runner.decode_buckets = {1, 2};
  options.runner.max_eager_tokens = 400;
  options.log = Log([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) lines.emplace_back(line);
  });
  Lane lane(options);
  TestSequence whole = lane.sequence(200, 1, 1);
  std::vector<TestSequence> three;
  for (int i = 0; i < 3; ++i) three.push_back(lane.sequence(5, static_cast<unsigned>(i), 10 + 8 * i, i));
  Batch tokens, rows, decode;
  lane.add(tokens, whole, 200);
  for (auto& s : three) lane.add(rows, s, 4);
  for (auto& s : three) lane.add(decode, s, 1, false);
  for (int i = 0; i < 9; ++i) {
    lane.runner().run(tokens);
    if (i % 3 == 0) lane.runner().run(rows);
    if (i % 4 == 0) lane.runner().run(decode);
  }
  const std::string head = " ran eager: reason=",
                    t = "input_tokens_exceed_capture_limit tokens=200 requests=1 "
                        "max_bucket=160 count=",
                    r = "request_count_exceed_capture_limit tokens=12 requests=3 max_bucket=160 count=",
                    d = "request_count_exceed_capture_limit tokens=3 requests=3 max_bucket=2 count=";
  std::vector<std::string> expected;
  for (const auto& [what, count] : std::vector<std::pair<std::string, int>>{{"prefill" + head + t, 1},
                                                                            {"prefill" + head + r, 1},
                                                                            {"decode" + head + d, 1},
                                                                            {"prefill" + head + t, 2},
                                                                            {"prefill" + head + t, 4},
                                                                            {"prefill" + head + r, 2},
                                                                            {"decode" + head + d, 2},
                                                                            {"prefill" + head + t, 8}})
    expected.push_back(what + std::to_string(count) + " detail=");
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].substr(0, expected[i].size()), expected[i]);
  const RunnerStats& stats = lane.runner().stats();
  EXPECT_EQ(stats.fallbacks[static_cast<int>(PrefillStatus::kInputTokensExceedCaptureLimit)], 9);
  EXPECT_EQ(stats.fallbacks[static_cast<int>(PrefillStatus::kRequestCountExceedCaptureLimit)], 3);
  EXPECT_EQ(stats.decode_misses[static_cast<int>(PrefillStatus::kRequestCountExceedCaptureLimit)], 3);
  EXPECT_EQ(stats.decode_eager, 3);
}

// S-40, I1, I2: a replay is one launch: no copy, no allocation, one wait; the graph's own first node fetches the set.
TEST_P(RunnerTest, S40_AReplayIsOneLaunch) {
  using testing::DevicePoint;
  Lane lane(on_device());
  TestSequence s = lane.sequence(20, 1, 1);
  Batch batch;
  lane.add(batch, s, 20);
  std::int64_t before[testing::kDevicePoints];
  for (int p = 0; p < testing::kDevicePoints; ++p) before[p] = lane.device().count(static_cast<DevicePoint>(p));
  for (int i = 0; i < 10; ++i) lane.runner().run(batch);
  const auto made = [&](DevicePoint p) { return lane.device().count(p) - before[static_cast<int>(p)]; };
  EXPECT_EQ(made(DevicePoint::kReplay), 10);
  EXPECT_EQ(made(DevicePoint::kWait), 10);
  for (DevicePoint p : {DevicePoint::kAllocate, DevicePoint::kCopy, DevicePoint::kCaptureBegin}) EXPECT_EQ(made(p), 0);
}

TEST_P(RunnerTest, S42_PaddingHasAValidToken) {
  for (const auto& [configured, expected] :
       std::vector<std::pair<std::optional<int>, int>>{{{}, 0}, {7, 7}, {129, 129}}) {
    LaneOptions options = on_device();
    options.model.pad_token_id = configured;
    Lane lane(options);
    TestSequence s = lane.sequence(3, 1, 1);
    Batch batch;
    lane.add(batch, s, 3);
    lane.runner().run(batch);
    const Staging& staging = *lane.runner().staging(GraphRole::kExtend);
    std::vector<std::int32_t> ids(16);
    lane.device().copy_to_host(ids.data(),
                               static_cast<const std::byte*>(staging.device_area()) + staging.layout().input_ids, 64);
    lane.device().synchronize();
    EXPECT_TRUE(std::equal(s.tokens.begin(), s.tokens.end(), ids.begin()));
    EXPECT_TRUE(std::all_of(ids.begin() + 3, ids.end(), [&](auto id) { return id == expected; }));
  }
}

// S-16, S-17: every parallel size degrades to eager with its own status, and is fatal if that is asked for.
TEST_P(RunnerTest, S17_UnsupportedTopologyDegradesOrEndsStartUp) {
  std::string logged;
  LaneOptions options = on_device();
  options.runner.topology.data_parallel = 2;
  options.log = Log([&](LogLevel, std::string_view line) { logged.append(line).push_back('\n'); });
  {
    Lane lane(options);
    EXPECT_EQ(lane.runner().init_status(), PrefillStatus::kTopologyNotSupported);
    EXPECT_TRUE(lane.runner().captures().empty()) << "decode, too";
    EXPECT_NE(logged.find("prefill graphs are off: reason=topology_not_supported"), std::string::npos) << logged;
  }
  options.runner.strict = true;
  EXPECT_THROW(Lane{options}, Error);
}

// S-33: an instance of another kind has no extend graphs, and says why.
TEST_P(RunnerTest, S33_OtherInstancesHaveTheirOwnRoles) {
  LaneOptions options = on_device();
  options.runner.instance = InstanceKind::kEmbedding;
  options.runner.max_eager_tokens = 64;
  Lane lane(options);
  TestSequence s = lane.sequence(20, 1, 1);
  Batch batch, decode;
  lane.add(batch, s, 20);
  EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kModelNotSupported);
  s.tokens.push_back(3);
  lane.add(decode, s, 1, false);
  EXPECT_THROW(lane.runner().run(decode), Error);
}

TEST_P(RunnerTest, PG05_OneSourceForEveryCapacity) {
  for (const auto& [max_seqs, ladder] : std::vector<std::pair<int, std::vector<int>>>{{10, {8, 16}}, {16, {8}}}) {
    LaneOptions options = on_device();
    options.runner.max_seqs = max_seqs;
    options.runner.max_rows = max_seqs;
    options.runner.prefill_buckets = ladder;
    options.runner.decode_buckets = default_decode_ladder(max_seqs);
    options.n_blocks = 200;
    Lane lane(options);
    for (int n_rows = 1; n_rows <= max_seqs; ++n_rows) {
      Batch prefill, decode;
      std::vector<TestSequence> sequences;
      for (int i = 0; i < n_rows; ++i) sequences.push_back(lane.sequence(2, static_cast<unsigned>(i), 1 + 8 * i, i));
      for (auto& s : sequences) lane.add(prefill, s, 1);
      const StepResult result = lane.runner().run(prefill);
      EXPECT_EQ(result.status == PrefillStatus::kReplayed, n_rows <= ladder.back());
      for (auto& s : sequences) lane.add(decode, s, 1, false);
      EXPECT_TRUE(lane.runner().run(decode).replayed);
      EXPECT_TRUE(same_bits(lane.logits(n_rows - 1), oracle(sequences.back(), on_device())));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachDevice, RunnerTest, ::testing::ValuesIn(testing::devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace monograph
