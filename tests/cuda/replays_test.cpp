// Many replays in random order, over poisoned leftovers: nothing of an earlier step shows in a later one.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

constexpr int kPoison = 11;                               // this token's embedding is NaN
constexpr int kWildId = std::numeric_limits<int>::max();  // what unused rows hold

LaneOptions poisoned(const ModelConfig& model, bool skip_padding) {
  ModelConfig config = model;
  config.pad_token_id = kWildId;
  LaneOptions options = testing::on("cuda", config);
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

class Poison : public ::testing::TestWithParam<testing::Family> {};

// PG02, PG12, CG07: replay equals eager in every bucket at bucket, bucket - 1 and the least size.
TEST_P(Poison, PG12_NothingOfPaddingShows) {
  for (bool skip_padding : {true, false}) {
    const LaneOptions options = poisoned(GetParam().config, skip_padding);
    Lane lane(options);
    int least = 1;
    for (int bucket : options.runner.prefill_buckets) {
      for (int n : {least, bucket - 1, bucket}) {
        TestSequence s = clean(lane, n, static_cast<unsigned>(n), 1);
        Batch batch;
        lane.add(batch, s, n);
        lane.fill_cache(0xff);
        lane.runner().run_eager(batch);
        const auto wanted = lane.logits(0);
        const auto block = lane.block_bytes(1);
        lane.fill_cache(0xff);
        poison(lane, 20);
        const StepResult result = lane.runner().run(batch);
        EXPECT_EQ(result.bucket, bucket);
        EXPECT_TRUE(same_bits(lane.logits(0), wanted)) << n << " tokens, padding skipped: " << skip_padding;
        EXPECT_EQ(lane.block_bytes(1), block) << n;
        for (float z : wanted) ASSERT_TRUE(std::isfinite(z));
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

LaneOptions crowded() {
  LaneOptions options = poisoned(testing::families()[5].config, true);
  options.runner.max_seq_len = 64;  // one block each
  options.n_scratch = 1;
  options.runner.max_seqs = 40;
  options.runner.max_rows = 6;
  options.runner.decode_buckets = {1, 2, 4, 8, 16, 40};
  return options;
}

// CG09, CG19, PG08: sizes change from step to step, prefill and decode alternate.
TEST(Replays, CG09_TenThousandInRandomOrder) {
  Lane lane(crowded());
  const Cast cast = make_cast(lane, 32, 60);
  std::mt19937 random(23);
  int n_bits = 0;
  for (int step = 0; step < 10'000; ++step) {
    const bool decode = random() % 2 == 0;
    const int most = decode ? 32 : 6;
    const int n_rows = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    std::vector<int> chosen(cast.sequences.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    std::shuffle(chosen.begin(), chosen.end(), random);
    Batch batch;
    std::vector<int> rows;
    for (int i = 0; i < n_rows; ++i) {
      TestSequence s = cast.sequences[static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)])];
      const int length = static_cast<int>(s.tokens.size());
      // Its K and V are in place since the cast was made: any tail of it may be computed again.
      const int tail = decode ? 1 : 1 + static_cast<int>(random() % static_cast<unsigned>(length));
      if (batch.n_tokens() + tail > 160) break;
      s.cached = length - tail;
      lane.add(batch, s, tail, !decode);
      rows.push_back(chosen[static_cast<std::size_t>(i)]);
    }
    const StepResult result = lane.runner().run(batch);
    ASSERT_TRUE(result.replayed) << step;
    for (std::size_t row = 0; row < rows.size(); ++row)
      ASSERT_EQ(result.rows[row].token, cast.tokens[static_cast<std::size_t>(rows[row])]) << "step " << step;
    if (step % 25 != 0) continue;
    for (std::size_t row = 0; row < rows.size(); ++row, ++n_bits)
      ASSERT_TRUE(same_bits(lane.logits(static_cast<int>(row)), cast.logits[static_cast<std::size_t>(rows[row])]))
          << "step " << step;
  }
  EXPECT_GT(n_bits, 1000);
}

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

}  // namespace
}  // namespace monograph
