// Many replays in random order, over poisoned leftovers: nothing of an earlier step shows in a later one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "model/model_files.h"
#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

constexpr int kPoison = 11;                               // this token's embedding is NaN
constexpr int kWildId = std::numeric_limits<int>::max();  // what unused rows hold

LaneOptions poisoned(const ModelConfig& model, bool skip_padding, const std::string& device = "cuda") {
  ModelConfig config = model;
  config.pad_token_id = kWildId;
  LaneOptions options = testing::on(device, config);
  auto files = std::make_shared<testing::TinyFiles>(config);
  files->poison(kPoison);
  options.files = files;
  options.runner.skip_padding = skip_padding;
  return options;
}

/// Fills every activation row of the largest bucket, and K and V of `blocks`, with NaN.
void poison(Lane& lane, int first_block) {
  TestSequence s = lane.sequence(160, 1, first_block, 7);
  std::fill(s.tokens.begin(), s.tokens.end(), kPoison);
  Batch batch;
  lane.add(batch, s, 160);
  EXPECT_EQ(lane.runner().run(batch).rows[0].token, -2) << "not poisonous";
}

TestSequence clean(Lane& lane, int n, unsigned seed, int first_block, int history_row = 0) {
  TestSequence s = lane.sequence(n, seed, first_block, history_row);
  for (auto& token : s.tokens)
    if (token == kPoison) token = kPoison + 1;
  return s;
}

/// What a step holds: as many rows, each behind a prefix that the cache has already.
struct Layout {
  const char* name;
  std::vector<int> prefixes;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {{"one", {0}}, {"one behind a prefix", {70}}, {"several", {0, 64, 17, 5}}};
  return all;
}

class Poison : public ::testing::TestWithParam<testing::Family> {
 protected:
  static constexpr int kFirst = 1, kBlocksEach = 8, kPoisonAt = 40;

  /// `n` tokens in the layout's rows, fewer rows where there are fewer tokens.
  static std::vector<TestSequence> sequences(Lane& lane, const Layout& layout, int n) {
    const int n_rows = std::min(n, static_cast<int>(layout.prefixes.size()));
    std::vector<TestSequence> all;
    for (int i = 0; i < n_rows; ++i) {
      const int length = n / n_rows + (i < n % n_rows ? 1 : 0), prefix = layout.prefixes[static_cast<std::size_t>(i)];
      all.push_back(clean(lane, prefix + length, static_cast<unsigned>(100 * n + i), kFirst + kBlocksEach * i, i));
    }
    return all;
  }

  /// The step's batch over a cache that is NaN but for the prefixes.
  static Batch prepare(Lane& lane, const Layout& layout, const std::vector<TestSequence>& all) {
    lane.fill_cache(0xff);
    Batch step;
    for (std::size_t i = 0; i < all.size(); ++i) {
      TestSequence s = all[i];
      if (const int prefix = layout.prefixes[i]; prefix > 0) {
        Batch before;
        lane.add(before, s, prefix);
        lane.runner().run_eager(before);
      }
      lane.add(step, s, static_cast<int>(s.tokens.size()) - s.cached);
    }
    return step;
  }

  /// Blocks of the cache: those that a step's tables name, or all others but scratch.
  static std::vector<std::vector<std::byte>> blocks(const Lane& lane, const Batch& batch, bool named) {
    std::vector<bool> in_table(static_cast<std::size_t>(lane.options().n_blocks));
    for (const BatchRow& row : batch.rows)
      for (std::int32_t block : row.block_tables[0]) in_table[static_cast<std::size_t>(block)] = true;
    std::vector<std::vector<std::byte>> bytes;
    for (int b = 0; b < lane.options().n_blocks; ++b)
      if (in_table[static_cast<std::size_t>(b)] == named && (named || !std::ranges::count(lane.scratch()[0], b)))
        bytes.push_back(lane.block_bytes(b));
    return bytes;
  }

  static int expected_bucket(const Batch& batch, int bucket) {
    const int n_rows = static_cast<int>(batch.rows.size());
    return batch.n_tokens() == n_rows ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n_rows))) : bucket;
  }

  static void check(Lane& lane, const Layout& layout, int n, int bucket) {
    const std::vector<TestSequence> all = sequences(lane, layout, n);
    const int n_rows = static_cast<int>(all.size());
    Batch batch = prepare(lane, layout, all);
    lane.runner().run_eager(batch);
    const auto wanted = lane.runner().last_logits(n_rows);
    const auto wanted_blocks = blocks(lane, batch, true);
    for (float z : wanted) ASSERT_TRUE(std::isfinite(z));

    batch = prepare(lane, layout, all);
    poison(lane, kPoisonAt);
    const auto others = blocks(lane, batch, false);
    EXPECT_EQ(lane.runner().run(batch).bucket,
              expected_bucket(batch, bucket));  // rows of one token ride a decode graph
    EXPECT_TRUE(same_bits(lane.runner().last_logits(n_rows), wanted)) << "logits";
    EXPECT_EQ(blocks(lane, batch, true), wanted_blocks) << "K and V";
    EXPECT_EQ(blocks(lane, batch, false), others) << "blocks outside the tables";
  }
};

// PG02, PG12, CG07: replay equals eager in every bucket at bucket, bucket - 1 and the least size; one request and
// several, with and without a prefix; blocks that no table names keep every byte.
TEST_P(Poison, PG12_NothingOfPaddingShows) {
  for (bool skip_padding : {true, false}) {
    const LaneOptions options = poisoned(GetParam().config, skip_padding);
    Lane lane(options);
    int least = 1;
    for (int bucket : options.runner.prefill_buckets) {
      for (int n : {least, bucket - 1, bucket})
        for (const Layout& layout : layouts()) {
          SCOPED_TRACE(std::to_string(n) + " tokens, " + layout.name + (skip_padding ? ", padding skipped" : ""));
          check(lane, layout, n, bucket);
        }
      least = bucket + 1;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Poison, ::testing::ValuesIn(testing::families()), testing::family_name);

/// Sequences with blocks and history rows of their own, and the token and logits that follow each when alone.
struct Cast {
  std::vector<TestSequence> sequences;
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

Cast make_cast(Lane& lane, int n, int longest) {
  Cast cast;
  std::mt19937 random(17);
  for (int i = 0; i < n; ++i) {
    cast.sequences.push_back(
        clean(lane, 1 + static_cast<int>(random() % static_cast<unsigned>(longest)), random(), 1 + i, i));
    Batch batch;
    lane.add(batch, cast.sequences.back(), static_cast<int>(cast.sequences.back().tokens.size()));
    cast.tokens.push_back(lane.runner().run_eager(batch).rows[0].token);
    cast.logits.push_back(lane.logits(0));
  }
  return cast;
}

LaneOptions crowded(const std::string& device = "cuda") {
  LaneOptions options = poisoned(testing::families()[5].config, true, device);
  options.runner.max_seq_len = 64;  // one block each
  options.n_scratch = 1;
  options.runner.max_seqs = 40;
  options.runner.max_rows = 6;
  options.runner.decode_buckets = {1, 2, 4, 8, 16, 40};
  return options;
}

class RandomReplays : public ::testing::TestWithParam<const char*> {};

// CG09, CG19, PG08: sizes change from step to step, prefill and decode alternate; every row's logits have the bits of
// the same request alone and eager, and so have the K and V that it writes. MONOGRAPH_REPLAYS makes it longer. (R10)
TEST_P(RandomReplays, CG09_TenThousandInRandomOrder) {
  const char* asked = std::getenv("MONOGRAPH_REPLAYS");
  const int n_steps = asked ? std::atoi(asked) : 10'000;
  Lane lane(crowded(GetParam()));
  const Cast cast = make_cast(lane, 32, 60);
  const auto blocks = [&] {
    std::vector<std::vector<std::byte>> bytes;
    for (int i = 0; i < 32; ++i) bytes.push_back(lane.block_bytes(1 + i));
    return bytes;
  };
  const auto kept = blocks();
  const std::size_t width = cast.logits[0].size();
  std::mt19937 random(23);
  int n_rows = 0, n_decode = 0;
  for (int step = 0; step < n_steps; ++step) {
    const bool decode = random() % 2 == 0;
    const int most = 1 + static_cast<int>(random() % (decode ? 32u : 6u));
    std::vector<std::size_t> chosen(cast.sequences.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    std::shuffle(chosen.begin(), chosen.end(), random);
    chosen.resize(static_cast<std::size_t>(most));
    Batch batch;
    for (std::size_t i : chosen) {
      TestSequence s = cast.sequences[i];
      const int length = static_cast<int>(s.tokens.size());
      // Its K and V are in place since the cast was made: any tail of it may be computed again.
      const int tail = decode ? 1 : 1 + static_cast<int>(random() % static_cast<unsigned>(length));
      if (batch.n_tokens() + tail > 160) break;
      s.cached = length - tail;
      lane.add(batch, s, tail, !decode);
    }
    const StepResult result = lane.runner().run(batch);
    ASSERT_TRUE(result.replayed) << step;
    const auto logits = lane.runner().last_logits(static_cast<int>(batch.rows.size()));
    for (std::size_t row = 0; row < batch.rows.size(); ++row) {
      ASSERT_EQ(result.rows[row].token, cast.tokens[chosen[row]]) << "step " << step;
      ASSERT_EQ(0, std::memcmp(&logits[row * width], cast.logits[chosen[row]].data(), width * sizeof(float)))
          << "step " << step << ", row " << row;
    }
    n_rows += static_cast<int>(batch.rows.size());
    n_decode += decode;
    if (step % 100 == 99) {
      ASSERT_EQ(blocks(), kept) << "K and V after step " << step;
    }
  }
  std::printf("%d replays on %s, %d of them decode: %d rows bit for bit as alone\n", n_steps, GetParam(), n_decode,
              n_rows);
}

INSTANTIATE_TEST_SUITE_P(EachPath, RandomReplays, ::testing::Values("cuda", "cuda_sm80"),
                         [](const auto& info) { return std::string(info.param); });

// CG06: what a graph recorded lives as long as the graph, whatever else is allocated and given back.
TEST(Replays, CG06_MemoryAroundTheGraphsIsChurned) {
  Lane lane(crowded());
  const Cast cast = make_cast(lane, 4, 40);
  std::mt19937 random(3);
  std::vector<Buffer> held;
  for (int step = 0; step < 2000; ++step) {
    if (step % 20 == 0) {
      if (held.size() > 8) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
      held.push_back(lane.backend().device->allocate(1 + static_cast<std::int64_t>(random() % (256u << 20))));
    }
    TestSequence s = cast.sequences[step % 4];
    s.cached = 0;
    Batch batch;
    lane.add(batch, s, static_cast<int>(s.tokens.size()));
    ASSERT_EQ(lane.runner().run(batch).rows[0].token, cast.tokens[step % 4]) << step;
  }
}

// CG03: sizes that are no multiple of a kernel's tiles; what lies behind a row's end is not read. (The row's own model,
// a mixture of experts, is refused: ConfigJson.WhatIsNotBuiltIsRefusedByName.)
TEST(Replays, CG03_WidthsBetweenTheTilesOfTheKernels) {
  ModelConfig config = testing::family_config(ModelFamily::kQwen3, 3, 1, 64);
  config.model_dim = 320;
  config.ffn_dim = 448;
  config.vocab_size = 331;
  Lane lane(poisoned(config, true));
  for (unsigned i = 0; i < 64; ++i) {
    TestSequence s = clean(lane, 1 + static_cast<int>(i * 37 % 160), i, 1);
    const int n = static_cast<int>(s.tokens.size());
    Batch batch;
    lane.add(batch, s, n);
    lane.runner().run_eager(batch);
    const auto wanted = lane.logits(0);
    poison(lane, 20);
    EXPECT_TRUE(lane.runner().run(batch).replayed);
    EXPECT_TRUE(same_bits(lane.logits(0), wanted)) << n << " tokens";
    for (float z : wanted) ASSERT_TRUE(std::isfinite(z));
  }
}

// CG04, OL04: a thousand turns of small and large batches, eager ones between; nothing is allocated after start-up, so
// no address that a graph recorded can move. (Adapters, of which the row speaks, are refused:
// BadRequests.AdaptersCG04.)
TEST(Replays, CG04_MemoryStandsStillWhateverComes) {
  Lane lane(crowded());
  const Cast cast = make_cast(lane, 6, 60);
  const auto n_allocated = lane.device().count(testing::DevicePoint::kAllocate);
  for (int turn = 0; turn < 1000; ++turn) {
    Batch small, large;
    TestSequence s = cast.sequences[static_cast<std::size_t>(turn % 6)];
    s.cached = 0;
    lane.add(small, s, static_cast<int>(s.tokens.size()));
    std::vector<std::int32_t> wanted;
    for (std::size_t i = 0; i < cast.sequences.size(); ++i) {
      TestSequence one = cast.sequences[i];
      const int length = static_cast<int>(one.tokens.size());
      one.cached = length - std::min(length, 26);
      lane.add(large, one, length - one.cached);
      wanted.push_back(cast.tokens[i]);
    }
    ASSERT_EQ(lane.runner().run(small).rows[0].token, cast.tokens[static_cast<std::size_t>(turn % 6)]) << turn;
    const StepResult result = turn % 5 == 0 ? lane.runner().run_eager(large) : lane.runner().run(large);
    ASSERT_EQ(result.replayed, turn % 5 != 0);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(result.rows[i].token, wanted[i]) << turn;
  }
  EXPECT_EQ(lane.device().count(testing::DevicePoint::kAllocate), n_allocated);
}

// CG24: the area that a step is staged into is never the one that is being fetched.
TEST(Replays, CG24_StagingIsNotRefilledUnderAReplay) {
  Lane lane(crowded());
  Cast cast = make_cast(lane, 16, 60);
  Device& device = *lane.backend().device;
  constexpr std::int64_t kSlow = 64 << 20;
  const Buffer from = device.allocate_host(kSlow), to = device.allocate(kSlow);
  for (int step = 0; step < 1000; ++step) {
    // Queued before the step, so its fetch begins milliseconds late.
    device.copy_to_device(to.data(), from.data(), kSlow);
    const auto at = static_cast<std::size_t>(step % 16);
    TestSequence s = cast.sequences[at];
    s.cached = 0;
    Batch batch;
    lane.add(batch, s, static_cast<int>(s.tokens.size()));
    ASSERT_EQ(lane.runner().run(batch).rows[0].token, cast.tokens[at]) << step;
  }
}

/// Median of what the host waits for a step, in microseconds.
template <typename Step>
double median_us(const Step& step) {
  std::vector<double> us;
  for (int i = -3; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    if (i >= 0)
      us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(us, us.begin() + 7);
  return us[7];
}

// PG07: 3,208 tokens between buckets of 3,072 and 8,192 cost no more than eager under the measured policy, and what a
// replay pads is counted.
TEST(Replays, PG07_SparseBucketsCostNoMoreThanEager) {
  for (const GraphPolicy policy : {GraphPolicy::kMeasured, GraphPolicy::kAlways}) {
    LaneOptions options = testing::on("cuda", {});
    options.files = open_dummy_model(std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/Qwen3-0.6B");
    options.n_blocks = 300;
    options.runner.max_seq_len = 8256;
    options.runner.prefill_buckets = {3072, 8192};
    options.runner.policy = policy;
    Lane lane(options);
    TestSequence s = lane.sequence(3208, 1, 1);
    Batch batch;
    lane.add(batch, s, 3208);
    const StepResult chosen = lane.runner().run(batch);
    EXPECT_EQ(chosen.replayed, policy == GraphPolicy::kAlways);  // it would take more than twice eager's time
    EXPECT_EQ(lane.runner().stats().padding_tokens, chosen.replayed ? 8192 - 3208 : 0);
    const double run = median_us([&] { lane.runner().run(batch); }),
                 eager = median_us([&] { lane.runner().run_eager(batch); });
    std::printf("%s: 3208 tokens in %.0f us, eager %.0f us\n", chosen.replayed ? "replayed" : "eager", run, eager);
  }
}

}  // namespace
}  // namespace monograph
