// The first two nodes against SPEC A.3's worked examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/support/step.h"

namespace monograph {
namespace {

using test::Row;
using test::Step;
using ::testing::Each;
using ::testing::ElementsAreArray;

InputShape small_shape() {
  InputShape shape;
  shape.max_tokens = 16;
  shape.max_rows = 3;
  shape.table_width = 4;
  shape.block_size = 4;
  shape.max_seqs = 4;
  shape.max_seq_len = 16;
  return shape;
}

std::vector<std::int32_t> values(const std::int32_t* data, int n) { return {data, data + n}; }

std::vector<std::int32_t> repeated(std::initializer_list<std::pair<int, int>> runs) {
  std::vector<std::int32_t> out;
  for (auto [n, value] : runs) out.insert(out.end(), n, value);
  return out;
}

class Inputs : public ::testing::Test {
 protected:
  Backend backend = test::cpu_backend();
  Step step{backend, small_shape(), {90, 91, 92, 93}};
};

TEST_F(Inputs, ExampleWithoutPrefix) {
  Row a{5, 0, {1, 2, 3, 4, 5}, {7, 2}}, b{4, 0, {6, 7, 8, 9}, {5}};
  a.sampling.history_row = 2;
  b.sampling.history_row = 1;
  const StepInputs& in = step.run({a, b}, 16);
  EXPECT_THAT(values(in.input_lengths, 4), ElementsAreArray({5, 4, 0, 7}));
  EXPECT_THAT(values(in.cu_seqlens, 5), ElementsAreArray({0, 5, 9, 9, 16}));
  EXPECT_THAT(values(in.cu_kv_seqlens, 5), ElementsAreArray({0, 5, 9, 9, 16}));
  EXPECT_EQ(values(in.padding_offset, 16), repeated({{5, 0}, {4, 11}, {7, 39}}));
  EXPECT_THAT(values(in.kv_locs, 16),
              ElementsAreArray({28, 29, 30, 31, 8, 20, 21, 22, 23, 360, 361, 362, 363, 364, 365, 366}));
  EXPECT_THAT(values(in.sample_rows, 3), ElementsAreArray({4, 8, -1}));
  EXPECT_THAT(values(step.history(2), 5), ElementsAreArray({1, 2, 3, 4, 5}));
  EXPECT_THAT(values(step.history(1), 4), ElementsAreArray({6, 7, 8, 9}));
  EXPECT_THAT(values(step.history_lens(), 4), ElementsAreArray({0, 4, 5, 0}));
}

TEST_F(Inputs, ExampleMixed) {
  Row chunk{5, 8, {1, 2, 3, 4, 5}, {7, 2, 9, 4}}, decode{1, 6, {6}, {5, 6}};
  chunk.sampling.history_row = 0;
  decode.sampling.history_row = 3;
  const StepInputs& in = step.run({chunk, decode}, 16);
  EXPECT_THAT(values(in.kv_lens, 4), ElementsAreArray({13, 7, 0, 10}));
  EXPECT_THAT(values(in.cu_seqlens, 5), ElementsAreArray({0, 5, 6, 6, 16}));
  EXPECT_THAT(values(in.cu_kv_seqlens, 5), ElementsAreArray({0, 13, 20, 20, 30}));
  EXPECT_EQ(values(in.padding_offset, 16), repeated({{5, 0}, {1, 11}, {10, 42}}));
  EXPECT_THAT(values(in.positions, 16), ElementsAreArray({8, 9, 10, 11, 12, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_THAT(values(in.kv_locs, 16),
              ElementsAreArray({36, 37, 38, 39, 16, 26, 360, 361, 362, 363, 364, 365, 366, 367, 368, 369}));
  EXPECT_THAT(values(in.sample_rows, 3), ElementsAreArray({4, 5, -1}));
  EXPECT_EQ(step.history(0)[12], 5);
  EXPECT_EQ(step.history(3)[6], 6);
  EXPECT_THAT(values(step.history_lens(), 4), ElementsAreArray({13, 0, 0, 7}));
}

TEST_F(Inputs, LastRowsAreOneTokenOfEachSlot) {
  step.run({{2, 9, {}, {7, 2, 9}}, {1, 3, {}, {5}}, {4, 1, {}, {6, 3}}}, 16);
  const StepInputs& in = step.run({{5, 8, {}, {7, 2, 9, 4}}, {1, 6, {}, {5, 6}}}, 16);
  ASSERT_TRUE(in.has_last_rows());
  const StepInputs last = in.last_rows();
  EXPECT_FALSE(last.has_last_rows());
  EXPECT_EQ(last.capacity, 3);
  EXPECT_EQ(*last.n_tokens, 2);
  EXPECT_EQ(*last.n_seqs, 2);
  EXPECT_THAT(values(last.input_lengths, 4), ElementsAreArray({1, 1, 0, 0}));
  EXPECT_THAT(values(last.prefix_lengths, 4), ElementsAreArray({12, 6, 0, 0}));
  EXPECT_THAT(values(last.cu_seqlens, 5), ElementsAreArray({0, 1, 2, 2, 2}));
  EXPECT_THAT(values(last.sample_rows, 3), ElementsAreArray({0, 1, -1}));
  EXPECT_EQ(last.kv_lens, in.kv_lens);
  EXPECT_EQ(last.table(0), in.table(0));
}

TEST_F(Inputs, FoundIdsComeBeforeTheStepsTokens) {
  Row hit{2, 3, {4, 5}, {7, 2}}, usual{3, 8, {6, 7, 8}, {5, 6, 9}}, decode{1, 15, {20}, {1, 3, 4, 8}};
  hit.sampling.history_row = 2;
  hit.found = {1, 2, 3};
  usual.sampling.history_row = 0;
  decode.sampling.history_row = 3;
  decode.found = {30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44};  // the longest there can be
  for (int row = 0; row < 4; ++row) std::fill_n(step.history(row), 16, -row - 1);
  step.run({hit, usual, decode}, 8);
  EXPECT_THAT(values(step.history(0), 16),
              ElementsAreArray({-1, -1, -1, -1, -1, -1, -1, -1, 6, 7, 8, -1, -1, -1, -1, -1}));
  EXPECT_THAT(values(step.history(1), 16), Each(-2));
  EXPECT_THAT(values(step.history(2), 16),
              ElementsAreArray({1, 2, 3, 4, 5, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3}));
  EXPECT_THAT(values(step.history(3), 16),
              ElementsAreArray({30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 20}));
  EXPECT_THAT(values(step.history_lens(), 4), ElementsAreArray({11, 0, 5, 16}));
}

TEST_F(Inputs, FoundIdsOfAnEarlierStepAreNotTakenAgain) {
  Row row{1, 4, {5}, {7, 2}};
  row.sampling.history_row = 1;
  row.found = {1, 2, 3, 4};
  step.run({row}, 4);
  std::fill_n(step.history(1), 16, -1);
  row.found.clear();
  row.prefix = 5;
  step.run({row}, 4);
  EXPECT_THAT(values(step.history(1), 7), ElementsAreArray({-1, -1, -1, -1, -1, 5, -1}));
}

/// Rows of an odd width: those of `found` begin at multiples of 16 bytes all the same.
TEST(FoundIds, RandomStepsLeaveEachSequencesTokens) {
  InputShape shape = small_shape();
  shape.max_tokens = 64;
  shape.max_rows = shape.max_seqs = 7;
  shape.table_width = 25;
  shape.max_seq_len = 97;
  EXPECT_EQ(shape.found_width(), 100);
  Backend backend = test::cpu_backend();
  Step step(backend, shape);
  std::mt19937_64 random(test::seed());
  const auto ids = [&](std::size_t n) {
    std::vector<std::int32_t> some(n);
    for (auto& id : some) id = static_cast<std::int32_t>(random() % 1000);
    return some;
  };
  std::vector<std::vector<std::int32_t>> sequences(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Row> rows;
    for (int r = 0; r < 7; ++r) {
      auto& tokens = sequences[static_cast<std::size_t>(r)];
      const bool begins = tokens.size() + 9 > 97 || random() % 5 == 0;  // another sequence takes the row
      if (begins) tokens = ids(random() % 89);
      Row row;
      row.n_tokens = 1 + static_cast<int>(random() % 9);
      row.prefix = static_cast<int>(tokens.size());
      row.ids = ids(static_cast<std::size_t>(row.n_tokens));
      row.table.assign(25, 1 + r);
      row.sampling.history_row = r;
      if (begins) row.found = tokens;
      tokens.insert(tokens.end(), row.ids.begin(), row.ids.end());
      rows.push_back(std::move(row));
    }
    step.run(rows, 64);
    for (int r = 0; r < 7; ++r) {
      const auto& tokens = sequences[static_cast<std::size_t>(r)];
      ASSERT_EQ(values(step.history(r), static_cast<int>(tokens.size())), tokens) << "round " << round << ", row " << r;
      ASSERT_EQ(step.history_lens()[r], static_cast<int>(tokens.size()));
    }
  }
}

TEST_F(Inputs, DecodingRuleHoldsForEveryToken) {
  const StepInputs& in = step.run({{3, 2, {}, {1, 2}}, {1, 9, {}, {3, 4, 5}}, {6, 0, {}, {6, 7}}}, 12);
  for (int t = 0; t < 12; ++t) {
    const int g = t + in.padding_offset[t], slot = g / 12;
    EXPECT_GE(t, in.cu_seqlens[slot]);
    EXPECT_LT(t, in.cu_seqlens[slot + 1]);
    EXPECT_EQ(g % 12 + in.prefix_lengths[slot], in.positions[t]);
  }
}

TEST_F(Inputs, NothingOfALargerStepSurvives) {
  step.run({{5, 0, {1, 2, 3, 4, 5}, {7, 2}}, {4, 0, {6, 7, 8, 9}, {5}}, {2, 0, {8, 9}, {6}}}, 16);
  const StepInputs& in = step.run({{1, 0, {3}, {8}}}, 4);
  EXPECT_THAT(values(in.input_lengths, 4), ElementsAreArray({1, 0, 0, 3}));
  EXPECT_THAT(values(in.sample_rows, 3), ElementsAreArray({0, -1, -1}));
  EXPECT_THAT(values(in.table(0), 16), ElementsAreArray({8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 90, 91, 92, 93}));
  EXPECT_EQ(*in.n_tokens, 1);
  EXPECT_EQ(*in.n_seqs, 1);
}

TEST_F(Inputs, ReplayReadsTheAreaTheSelectorNames) {
  step.run({{1, 0, {11}, {8}}}, 4);
  auto graph = backend.device->capture([&] { step.run({{1, 0, {12}, {8}}}, 4); });
  EXPECT_EQ(step.inputs().input_ids[0], 11);  // capturing stages on the host, executes nothing
  graph->replay();
  EXPECT_EQ(step.inputs().input_ids[0], 12);
}

TEST(StagingLayout, FieldsAreAlignedApartAndIdsComeLast) {
  InputShape shape = small_shape();
  shape.position_factor = 3;
  const StagingLayout layout(shape);
  const std::int64_t fields[] = {layout.n_tokens,      layout.n_seqs,         layout.n_bias,       layout.n_banned,
                                 layout.input_lengths, layout.prefix_lengths, layout.sampling,     layout.block_tables,
                                 layout.bias,          layout.banned,         layout.position_ids, layout.input_ids};
  for (std::int64_t at : fields) EXPECT_EQ(at % 64, 0);
  EXPECT_TRUE(std::is_sorted(std::begin(fields), std::end(fields)));
  EXPECT_EQ(layout.position_ids - layout.banned, 3 * kMaxBannedIds * 4);
  EXPECT_GE(layout.bytes, layout.input_ids + 16 * 4);
}

}  // namespace
}  // namespace monograph
