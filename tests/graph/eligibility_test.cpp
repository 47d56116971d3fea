#include "graph/eligibility.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace monograph {
namespace {

const std::vector<int> kLadder{16, 32, 64};

GraphLimits limits() {
  GraphLimits limits;
  limits.ladder = kLadder;
  limits.max_rows = 4;
  limits.max_seq_len = 100;
  limits.block_size = 16;
  limits.table_width = 7;
  limits.n_blocks = 50;
  limits.scratch = true;
  limits.capabilities.prefill_graph = limits.capabilities.paged_prefix = limits.capabilities.mixed_rows = true;
  return limits;
}

BatchRow row(int n_tokens, int prefix, bool prefill) {
  BatchRow row;
  row.n_tokens = n_tokens;
  row.prefix = prefix;
  row.prefill = prefill;
  row.block_tables = {{}};
  for (int block = 0; block < (prefix + n_tokens + 15) / 16; ++block) row.block_tables[0].push_back(block + 1);
  return row;
}

Batch batch(std::vector<BatchRow> rows) {
  Batch batch;
  for (const auto& row : rows) batch.input_ids.insert(batch.input_ids.end(), row.n_tokens, 7);
  batch.rows = std::move(rows);
  return batch;
}

Batch mixed() { return batch({row(9, 20, true), row(1, 31, false)}); }

TEST(Eligibility, AMixedBatchFitsTheSmallestBucket) {
  const Eligibility found = check_batch(limits(), mixed());
  EXPECT_TRUE(found.ok()) << found.detail;
  EXPECT_EQ(found.bucket, 16);
  EXPECT_EQ(check_batch(limits(), batch({row(17, 0, true)})).bucket, 32);
  EXPECT_EQ(check_batch(limits(), batch({row(64, 0, true)})).bucket, 64);
  EXPECT_EQ(check_batch(limits(), batch({row(1, 0, true)})).bucket, 16) << "no padding-ratio gate (S-14)";
}

struct Case {
  const char* name;
  PrefillStatus status;
  std::function<void(GraphLimits&, Batch&)> change;
};

/// One changed field per row over a batch that passes (S-22, S-23, S-24, S-116).
class RejectMatrix : public testing::TestWithParam<Case> {};

TEST_P(RejectMatrix, GivesItsOwnStatus) {
  GraphLimits changed = limits();
  Batch b = mixed();
  ASSERT_TRUE(check_batch(changed, b).ok());
  GetParam().change(changed, b);
  const Eligibility found = check_batch(changed, b);
  EXPECT_FALSE(found.ok());
  EXPECT_EQ(to_string(found.status), to_string(GetParam().status)) << found.detail;
  EXPECT_EQ(found.bucket, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Gates, RejectMatrix,
    testing::Values(
        Case{"no_prefill", PrefillStatus::kNotRequested, [](auto&, Batch& b) { b.rows[0].prefill = false; }},
        Case{"mixed", PrefillStatus::kMixedPrefillDecodeNotSupported,
             [](GraphLimits& l, auto&) { l.capabilities.mixed_rows = false; }},
        Case{"request_count", PrefillStatus::kRequestCountExceedCaptureLimit,
             [](GraphLimits& l, auto&) { l.max_rows = 1; }},
        Case{"zero_length", PrefillStatus::kInputMetadataInvalid, [](auto&, Batch& b) { b.rows[1].n_tokens = 0; }},
        Case{"negative_prefix", PrefillStatus::kInputMetadataInvalid, [](auto&, Batch& b) { b.rows[1].prefix = -1; }},
        Case{"one_request_too_long", PrefillStatus::kInputTokensExceedCaptureLimit,
             [](GraphLimits& l, auto&) { l.max_seq_len = 28; }},
        Case{"batch_above_the_ladder", PrefillStatus::kInputTokensExceedCaptureLimit,
             [](auto&, Batch& b) {
               b = batch({row(60, 0, true), row(5, 0, true)});
             }},
        Case{"no_ladder", PrefillStatus::kInputTokensExceedCaptureLimit, [](GraphLimits& l, auto&) { l.ladder = {}; }},
        Case{"sum", PrefillStatus::kInputMetadataInvalid, [](auto&, Batch& b) { b.input_ids.push_back(1); }},
        Case{"prefix", PrefillStatus::kPrefixCacheNotSupported,
             [](GraphLimits& l, auto&) { l.capabilities.paged_prefix = false; }},
        Case{"scratch", PrefillStatus::kScratchKvUnavailable, [](GraphLimits& l, auto&) { l.scratch = false; }},
        Case{"groups", PrefillStatus::kGraphInputShapeMismatch,
             [](auto&, Batch& b) { b.rows[0].block_tables.clear(); }},
        Case{"short_table", PrefillStatus::kInputMetadataInvalid,
             [](auto&, Batch& b) { b.rows[0].block_tables[0].pop_back(); }},
        Case{"null_block", PrefillStatus::kInputMetadataInvalid,
             [](auto&, Batch& b) { b.rows[0].block_tables[0][0] = 0; }},
        Case{"wild_block", PrefillStatus::kInputMetadataInvalid,
             [](auto&, Batch& b) { b.rows[0].block_tables[0][0] = 50; }},
        Case{"wide_table", PrefillStatus::kGraphInputShapeMismatch,
             [](auto&, Batch& b) { b.rows[0].block_tables[0].resize(8, 3); }},
        Case{"positions_missing", PrefillStatus::kGraphInputShapeMismatch,
             [](GraphLimits& l, auto&) { l.position_factor = 3; }},
        Case{"positions_short", PrefillStatus::kGraphInputShapeMismatch,
             [](GraphLimits& l, Batch& b) {
               l.position_factor = 3;
               b.position_ids.emplace(29, 0);
             }},
        Case{"position_wild", PrefillStatus::kGraphInputShapeMismatch,
             [](GraphLimits& l, Batch& b) {
               l.position_factor = 3;
               b.position_ids.emplace(30, 0);
               b.position_ids->at(4) = 100;
             }}),
    [](const auto& info) { return info.param.name; });

TEST(Eligibility, PositionIdsAreIgnoredByModelsThatDeriveThem) {  // S-81
  Batch b = mixed();
  b.position_ids.emplace(1, -5);
  EXPECT_TRUE(check_batch(limits(), b).ok());
}

TEST(Topology, EveryFieldIsLookedAt) {  // S-16
  EXPECT_TRUE(topology_supported({}));
  for (int Topology::*size :
       {&Topology::world_size, &Topology::tensor_parallel, &Topology::data_parallel, &Topology::expert_parallel,
        &Topology::pipeline_parallel, &Topology::ffn_tensor_parallel, &Topology::ffn_sequence_parallel,
        &Topology::sequence_parallel, &Topology::context_parallel}) {
    Topology topology;
    topology.*size = 2;
    EXPECT_FALSE(topology_supported(topology));
  }
  Topology disaggregated;
  disaggregated.ffn_disaggregation = true;
  EXPECT_FALSE(topology_supported(disaggregated));
}

TEST(Malformed, SaysWhatIsWrong) {
  EXPECT_EQ(malformed(limits(), mixed()), "");
  EXPECT_EQ(malformed(limits(), Batch{}), "a batch without rows");
  Batch b = mixed();
  b.input_ids.pop_back();
  EXPECT_EQ(malformed(limits(), b), "token ids 9, row lengths add up to 10");
  b = mixed();
  b.rows[0].block_tables[0][1] = 77;
  EXPECT_EQ(malformed(limits(), b), "block id 77, ids end at 49");
}

}  // namespace
}  // namespace monograph
