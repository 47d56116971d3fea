// Explicit position ids, three per token (mRoPE), through the whole lane. (S-44, S-79..S-83)
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/support/lane.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::LaneOptions;
using testing::same_bits;
using testing::TestSequence;

using Ids = std::vector<std::int32_t>;

LaneOptions mrope(const std::string& device, std::vector<int> sections = {3, 2, 3}) {
  LaneOptions options;
  options.device = device;
  options.model.rope.mrope_sections = std::move(sections);
  options.model.position_factor = 3;
  return options;
}

/// Positions like those of an image in a text: three coordinates that go their own ways.
Ids grid_ids(int n_tokens, unsigned seed) {
  std::mt19937 random(seed);
  Ids ids;
  for (int t = 0; t < n_tokens; ++t)
    for (int p = 0; p < 3; ++p) ids.push_back(static_cast<std::int32_t>(random() % 400));
  return ids;
}

Ids text_ids(int n_tokens) {
  Ids ids;
  for (int t = 0; t < n_tokens; ++t) ids.insert(ids.end(), 3, t);
  return ids;
}

/// Adds the next n tokens with their part of `ids`.
void add(Lane& lane, Batch& batch, TestSequence& s, const Ids& ids, int n, bool prefill = true) {
  if (!batch.position_ids) batch.position_ids.emplace();
  batch.position_ids->insert(batch.position_ids->end(), ids.begin() + 3 * s.cached, ids.begin() + 3 * (s.cached + n));
  lane.add(batch, s, n, prefill);
}

/// Alone, eager, in one piece.
std::vector<float> oracle(const TestSequence& s, const Ids& ids, LaneOptions options) {
  options.runner.enable_graphs = false;
  options.runner.max_eager_tokens = 200;
  Lane lane(options);
  TestSequence fresh = s;
  fresh.cached = 0;
  std::iota(fresh.blocks.begin(), fresh.blocks.end(), 1);
  Batch batch;
  add(lane, batch, fresh, ids, static_cast<int>(fresh.tokens.size()));
  lane.runner().run(batch);
  return lane.logits(0);
}

class Positions : public ::testing::TestWithParam<std::string> {};

TEST_P(Positions, S81_EqualIdsAreTheModelWithoutThem) {
  LaneOptions plain;
  plain.device = GetParam();
  Lane lane(plain);
  TestSequence s = lane.sequence(100, 5, 1);
  Batch batch;
  lane.add(batch, s, 100);
  batch.position_ids = grid_ids(100, 1);  // P = 0: ignored
  EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
  const auto derived = lane.logits(0);
  s.cached = 0;
  EXPECT_TRUE(same_bits(oracle(s, text_ids(100), mrope(GetParam())), derived));
  EXPECT_FALSE(same_bits(oracle(s, grid_ids(100, 1), mrope(GetParam())), derived)) << "P = 3: used";
}

/// Each section follows its own id: with one section as wide as the head only that id matters.
TEST_P(Positions, S81_EverySectionFollowsItsId) {
  const Ids ids = grid_ids(40, 3);
  TestSequence s = Lane(mrope(GetParam())).sequence(40, 5, 1);
  for (int p = 0; p < 3; ++p) {
    std::vector<int> sections(3, 0);
    sections[static_cast<std::size_t>(p)] = 8;
    Ids of_section;
    for (int t = 0; t < 40; ++t) of_section.insert(of_section.end(), 3, ids[static_cast<std::size_t>(3 * t + p)]);
    EXPECT_TRUE(same_bits(oracle(s, ids, mrope(GetParam(), sections)), oracle(s, of_section, mrope(GetParam()))));
  }
}

TEST_P(Positions, ReplayEqualsEagerWholeChunkedPackedAndDecoded) {
  const LaneOptions options = mrope(GetParam());
  Lane lane(options);
  TestSequence s = lane.sequence(130, 7, 1), other = lane.sequence(20, 8, 30, 1);
  const Ids ids = grid_ids(130, 7), other_ids = grid_ids(20, 8);
  const auto expected = oracle(s, ids, options), expected_other = oracle(other, other_ids, options);
  for (int chunk : {1, 7, 64, 130}) {
    TestSequence again = s;
    while (again.cached < 130) {
      Batch batch;
      add(lane, batch, again, ids, std::min(chunk, 130 - again.cached));
      ASSERT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
    }
    EXPECT_TRUE(same_bits(lane.logits(0), expected)) << "chunks of " << chunk;
  }
  TestSequence decoding = s;
  Batch first, mixed, decode;
  add(lane, first, decoding, ids, 129);
  lane.runner().run(first);
  add(lane, mixed, other, other_ids, 20);
  add(lane, mixed, decoding, ids, 1, false);
  EXPECT_EQ(lane.runner().run(mixed).status, PrefillStatus::kReplayed);
  EXPECT_TRUE(same_bits(lane.logits(1), expected)) << "decode row of a mixed step";
  EXPECT_TRUE(same_bits(lane.logits(0), expected_other));
  decoding.cached = 129;
  add(lane, decode, decoding, ids, 1, false);
  EXPECT_TRUE(lane.runner().run(decode).replayed);
  EXPECT_TRUE(same_bits(lane.logits(0), expected)) << "decode graph";
}

TEST_P(Positions, AfterAPrefixHit) {
  const LaneOptions options = mrope(GetParam());
  Lane lane(options);
  TestSequence owner = lane.sequence(100, 11, 1), hit = lane.sequence(90, 12, 20, 1);
  Ids ids = grid_ids(100, 11), hit_ids = grid_ids(90, 12);
  std::copy_n(owner.tokens.begin(), 64, hit.tokens.begin());
  std::copy_n(ids.begin(), 3 * 64, hit_ids.begin());
  Batch first;
  add(lane, first, owner, ids, 100);
  lane.runner().run(first);
  hit.blocks[0] = owner.blocks[0];
  hit.cached = 64;
  Batch batch;
  add(lane, batch, hit, hit_ids, 26);
  EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
  EXPECT_TRUE(same_bits(lane.logits(0), oracle(hit, hit_ids, options)));
}

// S-44: PREPARE sees the real ids and leaves no trace; the forward counts once.
// D3: bucket times of such a model are measured with positions of its scratch row, and change nothing.
TEST_P(Positions, MeasuredBuckets) {
  LaneOptions options = mrope(GetParam());
  options.runner.prefill_buckets = {16, 64};
  options.runner.measure_buckets = true;
  Lane lane(options);
  ASSERT_EQ(lane.runner().bucket_times().size(), 2u);
  for (const auto& [bucket, times] : lane.runner().bucket_times()) {
    EXPECT_GT(times.graph_us, 0) << bucket;
    EXPECT_GT(times.eager_us, 0) << bucket;
  }
  TestSequence s = lane.sequence(40, 3, 1);
  const Ids ids = grid_ids(40, 4);
  const auto expected = oracle(s, ids, options);
  Batch batch;
  add(lane, batch, s, ids, 40);
  EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
  EXPECT_TRUE(same_bits(lane.logits(0), expected));
}

TEST_P(Positions, S44_PrepareThenForward) {
  Lane lane(mrope(GetParam()));
  TestSequence s = lane.sequence(20, 1, 1);
  Batch batch;
  add(lane, batch, s, grid_ids(20, 1), 20);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lane.runner().check(batch).ok());
  Batch without = batch;
  without.position_ids.reset();
  EXPECT_EQ(lane.runner().check(without).status, PrefillStatus::kGraphInputShapeMismatch);
  EXPECT_EQ(lane.runner().stats().prefill_replays, 0);
  EXPECT_EQ(lane.runner().run(batch).status, PrefillStatus::kReplayed);
  EXPECT_EQ(lane.runner().stats().prefill_replays, 1);
  const auto& fallbacks = lane.runner().stats().fallbacks;
  EXPECT_EQ(std::accumulate(fallbacks.begin(), fallbacks.end(), std::int64_t{0}), 0);
}

// PG02, S-79: the tail is cleared and the head is not, in every bucket, whatever stood there.
TEST_P(Positions, PG02_ALargerBatchLeavesNoPositionsBehind) {
  LaneOptions options = mrope(GetParam());
  options.runner.prefill_buckets = {64, 256};
  options.runner.skip_padding = false;  // the padded tail's positions are really used
  Lane lane(options);
  TestSequence large = lane.sequence(250, 21, 10, 1), small = lane.sequence(130, 22, 1);
  const Ids large_ids(3 * 250, 511), small_ids = grid_ids(130, 22);
  Batch first, second;
  add(lane, first, large, large_ids, 250);
  EXPECT_EQ(lane.runner().run(first).bucket, 256);
  lane.poison_activations();
  const Staging& staging = *lane.runner().staging(GraphRole::kExtend);
  auto* at = static_cast<std::byte*>(staging.device_area()) + staging.layout().position_ids;
  const Ids wild(3 * 256, std::numeric_limits<std::int32_t>::max());
  lane.device().copy_to_device(at, wild.data(), static_cast<std::int64_t>(wild.size() * 4));
  lane.device().synchronize();
  add(lane, second, small, small_ids, 130);
  EXPECT_EQ(lane.runner().run(second).bucket, 256);
  const auto logits = lane.logits(0);
  const auto blocks = {lane.block_bytes(1), lane.block_bytes(2), lane.block_bytes(3)};
  EXPECT_TRUE(same_bits(logits, oracle(small, small_ids, options)));
  Ids staged(3 * 256);
  lane.device().copy_to_host(staged.data(), at, static_cast<std::int64_t>(staged.size() * 4));
  lane.device().synchronize();
  EXPECT_TRUE(std::equal(small_ids.begin(), small_ids.end(), staged.begin()));
  EXPECT_TRUE(std::all_of(staged.begin() + 3 * 130, staged.end(), [](auto id) { return id == 0; }));
  lane.runner().run_eager(second);
  EXPECT_TRUE(same_bits(logits, lane.logits(0)));
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(),
                         std::vector{lane.block_bytes(1), lane.block_bytes(2), lane.block_bytes(3)}.begin()));
}

// S-80: clearing does not depend on the number of cache groups.
TEST_P(Positions, S80_WithSeveralGroups) {
  LaneOptions one = mrope(GetParam()), two = one;
  two.group_tags = {"full", "second"};
  for (const LaneOptions& options : {one, two}) {
    Lane lane(options);
    TestSequence large = lane.sequence(120, 1, 1), small = lane.sequence(70, 2, 10, 1);
    Batch first, second;
    add(lane, first, large, Ids(360, 77), 120);
    lane.runner().run(first);
    add(lane, second, small, grid_ids(70, 2), 70);
    EXPECT_EQ(lane.runner().run(second).status, PrefillStatus::kReplayed);
    EXPECT_TRUE(same_bits(lane.logits(0), oracle(small, grid_ids(70, 2), one)));
  }
}

INSTANTIATE_TEST_SUITE_P(EachDevice, Positions, ::testing::ValuesIn(testing::devices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace monograph
