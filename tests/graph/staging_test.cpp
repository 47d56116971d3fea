// The device's derived arrays against the host oracle, byte for byte (D4), and whole sets after a shrinking batch.
#include "graph/staging.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "graph/padding.h"
#include "ops/backend.h"

namespace monograph {
namespace {

InputShape shape() {
  InputShape shape;
  shape.max_tokens = 96;
  shape.max_rows = 5;
  shape.table_width = 8;
  shape.block_size = 16;
  shape.position_factor = 3;
  shape.max_seqs = 8;
  shape.max_seq_len = 128;
  return shape;
}

class StagingTest : public testing::Test {
 protected:
  StagingTest() : backend_(make_backend(options(), Log{})) {
    history_.resize(8 * 128, -1);
    lens_.resize(8, -1);
    found_.resize(8 * 128, -1);
    staging_.emplace(*backend_.device, shape(), std::vector<std::vector<std::int32_t>>{{90, 91, 92, 93, 94, 95}}, 9,
                     History{.ids = history_.data(), .lens = lens_.data(), .found = found_.data()});
  }
  static BackendOptions options() {
    BackendOptions options;
    options.device = "cpu";
    options.threads = 1;
    return options;
  }

  Batch random_batch(int capacity) {
    Batch batch;
    const int n_rows = 1 + static_cast<int>(random_() % 5);
    int left = capacity - n_rows;
    for (int i = 0; i < n_rows; ++i) {
      BatchRow row;
      const int more = static_cast<int>(random_() % (left + 1));
      left -= more;
      row.n_tokens = 1 + more;
      row.prefix = static_cast<int>(random_() % (128 - row.n_tokens + 1));
      row.prefill = true;
      row.block_tables.emplace_back();
      for (int b = 0; b < (row.prefix + row.n_tokens + 15) / 16; ++b)
        row.block_tables[0].push_back(1 + static_cast<int>(random_() % 80));
      row.sampling.history_row = i;
      row.sampling.samples = 1;
      for (int t = 0; t < row.n_tokens; ++t) batch.input_ids.push_back(static_cast<std::int32_t>(random_() % 300));
      batch.rows.push_back(std::move(row));
    }
    batch.position_ids.emplace(batch.input_ids.size() * 3, 0);
    for (auto& id : *batch.position_ids) id = static_cast<std::int32_t>(random_() % 128);
    return batch;
  }

  StepInputs fetch_and_derive(const Batch& batch, int capacity) {
    staging_->stage(batch, capacity);
    const StepInputs in = staging_->inputs(capacity, true, true);
    const auto host = staging_->host_areas();
    backend_.ops->fetch_inputs(staging_->device_area(), host.data(), staging_->selector(), staging_->layout(), in.shape,
                               capacity);
    backend_.ops->derive_inputs(in);
    return in;
  }

  Backend backend_;
  std::vector<std::int32_t> history_, lens_, found_;
  std::optional<Staging> staging_;
  std::mt19937 random_{4711};
};

TEST_F(StagingTest, DeviceArraysEqualTheOracleByteForByte) {  // D4, S-38
  for (int round = 0; round < 300; ++round) {
    const int capacity = 6 + static_cast<int>(random_() % 91);
    const Batch batch = random_batch(capacity);
    const StepInputs in = fetch_and_derive(batch, capacity);
    std::vector<std::int32_t> lengths, prefixes;
    for (const auto& row : batch.rows) {
      lengths.push_back(row.n_tokens);
      prefixes.push_back(row.prefix);
    }
    std::vector<std::int32_t> a[8] = {std::vector<std::int32_t>(6),        std::vector<std::int32_t>(6),
                                      std::vector<std::int32_t>(6),        std::vector<std::int32_t>(7),
                                      std::vector<std::int32_t>(7),        std::vector<std::int32_t>(capacity),
                                      std::vector<std::int32_t>(capacity), std::vector<std::int32_t>(5)};
    const PaddedLayout expected{a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]};
    ASSERT_TRUE(build_padded_layout(lengths, prefixes, capacity, 5, expected));
    std::vector<std::int32_t> kv_locs(capacity);
    build_kv_locs(expected, {in.table(0), 6 * 8}, 8, 16, kv_locs);
    const auto same = [&](const std::int32_t* device, std::span<const std::int32_t> host) {
      return std::equal(host.begin(), host.end(), device);
    };
    ASSERT_TRUE(same(in.input_lengths, expected.input_lengths));
    ASSERT_TRUE(same(in.prefix_lengths, expected.prefix_lengths));
    ASSERT_TRUE(same(in.kv_lens, expected.kv_lens));
    ASSERT_TRUE(same(in.cu_seqlens, expected.cu_seqlens));
    ASSERT_TRUE(same(in.cu_kv_seqlens, expected.cu_kv_seqlens));
    ASSERT_TRUE(same(in.padding_offset, expected.padding_offset));
    ASSERT_TRUE(same(in.positions, expected.positions));
    ASSERT_TRUE(same(in.sample_rows, expected.sample_rows));
    ASSERT_TRUE(same(in.kv_locs, kv_locs));
  }
}

// The last tokens alone are a step like any other: one token behind all that came before it, and no padding.
TEST_F(StagingTest, TheLastRowsEqualTheOracleOfAStepOfOneTokenEach) {
  for (int round = 0; round < 300; ++round) {
    const int capacity = 6 + static_cast<int>(random_() % 91);
    const Batch batch = random_batch(capacity);
    const StepInputs in = fetch_and_derive(batch, capacity).last_rows();
    const int n_rows = static_cast<int>(batch.rows.size());
    std::vector<std::int32_t> prefixes;
    for (const auto& row : batch.rows) prefixes.push_back(row.prefix + row.n_tokens - 1);
    std::vector<std::int32_t> slots[3], sums[2], tokens[2], rows(5);
    for (auto& one : slots) one.resize(6);
    for (auto& one : sums) one.resize(7);
    for (auto& one : tokens) one.resize(static_cast<std::size_t>(n_rows));
    const PaddedLayout expected{slots[0], slots[1], slots[2], sums[0], sums[1], tokens[0], tokens[1], rows};
    ASSERT_TRUE(build_padded_layout(std::vector<std::int32_t>(static_cast<std::size_t>(n_rows), 1), prefixes, n_rows, 5,
                                    expected));
    const auto same = [&](const std::int32_t* device, std::span<const std::int32_t> host) {
      return std::equal(host.begin(), host.end(), device);
    };
    ASSERT_EQ(in.capacity, 5);
    ASSERT_EQ(*in.n_tokens, n_rows);
    ASSERT_TRUE(same(in.input_lengths, expected.input_lengths));
    ASSERT_TRUE(same(in.prefix_lengths, expected.prefix_lengths));
    ASSERT_TRUE(same(in.kv_lens, std::span(expected.kv_lens).first(5)));  // but for the sentinel's
    ASSERT_TRUE(same(in.cu_seqlens, expected.cu_seqlens));
    ASSERT_TRUE(same(in.sample_rows, expected.sample_rows));
  }
}

TEST_F(StagingTest,
       WholeSetAfterEveryShrink) {  // I3, S-41, S-79: rows, columns, ids and positions of a former batch are gone
  for (int round = 0; round < 200; ++round) {
    const int capacity = 6 + static_cast<int>(random_() % 91);
    const Batch batch = random_batch(capacity);
    const StepInputs in = fetch_and_derive(batch, capacity);
    ASSERT_EQ(*in.n_tokens, batch.n_tokens());
    ASSERT_EQ(*in.n_seqs, static_cast<int>(batch.rows.size()));
    for (int t = 0; t < capacity; ++t) ASSERT_EQ(in.input_ids[t], t < batch.n_tokens() ? batch.input_ids[t] : 9);
    for (int i = 0; i < capacity * 3; ++i)
      ASSERT_EQ(in.position_ids[i], i < batch.n_tokens() * 3 ? (*batch.position_ids)[i] : 0);
    for (int slot = 0; slot < 6; ++slot) {
      for (int column = 0; column < 8; ++column) {
        std::int32_t expected = 0;
        if (slot == 5)
          expected = column < 6 ? 90 + column : 0;
        else if (slot < static_cast<int>(batch.rows.size()) &&
                 column < static_cast<int>(batch.rows[slot].block_tables[0].size()))
          expected = batch.rows[slot].block_tables[0][column];
        ASSERT_EQ(in.table(0)[slot * 8 + column], expected) << slot << ", " << column;
      }
      ASSERT_EQ(in.sampling[slot].samples, slot < static_cast<int>(batch.rows.size()) ? 1 : 0);
    }
  }
}

TEST_F(StagingTest, HistoryGrowsByTheStepsTokensOfRealRowsOnly) {
  Batch batch = random_batch(40);
  batch.rows.resize(1);
  batch.rows[0].n_tokens = 3;
  batch.rows[0].prefix = 4;
  batch.rows[0].sampling.history_row = 6;
  batch.input_ids = {7, 8, 11};
  batch.position_ids.reset();
  const auto before = history_;
  fetch_and_derive(batch, 16);
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 128; ++column) {
      const bool written = row == 6 && column >= 4 && column < 7;
      ASSERT_EQ(history_[row * 128 + column], written ? batch.input_ids[column - 4] : before[row * 128 + column]);
    }
    ASSERT_EQ(lens_[row], row == 6 ? 7 : -1);
  }
}

TEST_F(StagingTest, WhatAPrefixHitSkippedIsStagedForOneStep) {
  Batch batch = random_batch(60);
  std::vector<std::vector<std::int32_t>> skipped;
  for (BatchRow& row : batch.rows) {
    skipped.emplace_back(static_cast<std::size_t>(row.prefix));
    for (auto& id : skipped.back()) id = static_cast<std::int32_t>(random_() % 300);
  }
  const auto before = history_;
  for (std::size_t row = 0; row < batch.rows.size(); row += 2) batch.rows[row].found = skipped[row];
  fetch_and_derive(batch, 60);
  std::size_t next = 0;
  for (std::size_t row = 0; row < batch.rows.size(); ++row) {
    const auto prefix = static_cast<std::size_t>(batch.rows[row].prefix);
    for (std::size_t i = 0; i < prefix; ++i)
      ASSERT_EQ(history_[row * 128 + i], row % 2 == 0 ? skipped[row][i] : before[row * 128 + i]) << row << ", " << i;
    for (int t = 0; t < batch.rows[row].n_tokens; ++t, ++next)
      ASSERT_EQ(history_[row * 128 + prefix + static_cast<std::size_t>(t)], batch.input_ids[next]) << row;
    batch.rows[row].found = {};
  }
  std::ranges::fill(history_, -1);
  fetch_and_derive(batch, 60);
  for (std::size_t row = 0; row < batch.rows.size(); ++row)
    for (int i = 0; i < batch.rows[row].prefix; ++i) ASSERT_EQ(history_[row * 128 + static_cast<std::size_t>(i)], -1);
}

// S-45: a replay may read its area until it is done: staging the next step leaves every byte of it.
TEST_F(StagingTest, S45_StagingNeverTouchesTheAreaThatAReplayReads) {
  const auto bytes_in_use = [&] {
    const auto* area = static_cast<const std::byte*>(staging_->host_areas()[*staging_->selector()]);
    return std::vector<std::byte>(area, area + staging_->layout().bytes);
  };
  staging_->stage(random_batch(96), 96);
  for (int round = 0; round < 300; ++round) {
    const void* area = staging_->host_areas()[*staging_->selector()];
    const auto before = bytes_in_use();
    const int capacity = 6 + static_cast<int>(random_() % 91);
    staging_->stage(random_batch(capacity), capacity);
    ASSERT_NE(staging_->host_areas()[*staging_->selector()], area) << "the next fetch takes the other one";
    ASSERT_EQ(std::memcmp(area, before.data(), before.size()), 0) << "round " << round;
  }
}

TEST_F(StagingTest, TheAreaInUseIsNotTheOneBeingWritten) {  // S-45
  staging_->stage(random_batch(20), 20);
  const std::int32_t first = *staging_->selector();
  staging_->stage(random_batch(20), 20);
  EXPECT_NE(*staging_->selector(), first);
}

/// What the gates and the planner guarantee; staging more than fits would write over its neighbours.
class StagingDeathTest : public StagingTest {
 protected:
  Batch one_row() {
    Batch batch = random_batch(20);
    batch.rows.resize(1);
    batch.input_ids.resize(static_cast<std::size_t>(batch.rows[0].n_tokens));
    return batch;
  }
};

TEST_F(StagingDeathTest, WhatDoesNotFitStopsTheProcess) {
  Batch batch = one_row();
  const int n = batch.n_tokens();
  EXPECT_DEATH(staging_->stage(batch, 97), "max_tokens");
  EXPECT_DEATH(staging_->stage(batch, n - 1), "capacity");
  batch.rows.resize(6, batch.rows[0]);
  EXPECT_DEATH(staging_->stage(batch, 96), "max_rows");
  batch = one_row();
  batch.rows[0].block_tables[0].resize(9, 1);
  EXPECT_DEATH(staging_->stage(batch, 96), "width");
  batch = one_row();
  batch.group_tags = {"another"};
  EXPECT_DEATH(staging_->stage(batch, 96), "table_of_group");
  batch = one_row();
  batch.position_ids->resize(static_cast<std::size_t>(3 * n - 1));
  EXPECT_DEATH(staging_->stage(batch, 96), "position_ids");
  batch = one_row();
  batch.rows[0].bias.resize(kMaxLogitBias + 1);
  EXPECT_DEATH(staging_->stage(batch, 96), "bias");
  batch = one_row();
  batch.rows[0].banned.resize(kMaxBannedIds + 1);
  EXPECT_DEATH(staging_->stage(batch, 96), "banned");
  const std::vector<std::int32_t> ids(129);
  batch = one_row();
  batch.rows[0].prefix = 20;
  batch.rows[0].found = std::span(ids).first(21);
  EXPECT_DEATH(staging_->stage(batch, 96), "prefix");
  batch.rows[0].prefix = 129;
  batch.rows[0].found = ids;
  EXPECT_DEATH(staging_->stage(batch, 96), "max_seq_len");
  for (int row : {-1, 8}) {
    batch = one_row();
    batch.rows[0].sampling.history_row = row;
    EXPECT_DEATH(staging_->stage(batch, 96), "history_row");
  }
  for (int capacity : {0, 97}) EXPECT_DEATH(staging_->inputs(capacity, true), "capacity");
}

TEST_F(StagingDeathTest, BuffersThatDoNotBelongTogetherStopTheProcess) {
  EXPECT_DEATH(Staging(*backend_.device, shape(), {}, 0, {}, {CacheGroup{}, CacheGroup{.tag = "second"}}), "n_groups");
  EXPECT_DEATH(Staging(*backend_.device, shape(), {std::vector<std::int32_t>(9, 1)}, 0, {}), "table_width");
}

}  // namespace
}  // namespace monograph
