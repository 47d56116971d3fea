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
        Case{"no_tables", PrefillStatus::kInputMetadataInvalid,
             [](auto&, Batch& b) { b.rows[0].block_tables.clear(); }},
        Case{"other_tag", PrefillStatus::kGraphInputShapeMismatch, [](auto&, Batch& b) { b.group_tags = {"window"}; }},
        Case{"missing_tag", PrefillStatus::kGraphInputShapeMismatch,
             [](GraphLimits& l, auto&) {
               l.groups = {{.tag = "full"}, {.tag = "window"}};
             }},
        Case{"publish_kv", PrefillStatus::kPdCacheStoreNotSupported,
             [](auto&, Batch& b) { b.rows[1].needs.publish_kv = true; }},
        Case{"features", PrefillStatus::kMultimodalInputNotSupported,
             [](auto&, Batch& b) { b.rows[1].needs.features = true; }},
        Case{"token_types", PrefillStatus::kTokenTypeInputNotSupported,
             [](auto&, Batch& b) { b.rows[1].needs.token_types = true; }},
        Case{"adapter", PrefillStatus::kLoraNotSupported, [](auto&, Batch& b) { b.rows[1].needs.adapter = true; }},
        Case{"prompt_logits", PrefillStatus::kRequestNotSupported,
             [](auto&, Batch& b) { b.rows[1].needs.prompt_logits = true; }},
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
        Case{"position_negative", PrefillStatus::kGraphInputShapeMismatch,
             [](GraphLimits& l, Batch& b) {
               l.position_factor = 3;
               b.position_ids.emplace(30, 0);
               b.position_ids->at(4) = -1;
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

const std::vector<int> kScratchLadder{16, 64};

Deployment deployment() {
  Deployment d;
  d.ladder = kScratchLadder;
  d.n_scratch = {4};
  d.n_scratch_needed = 4;
  return d;
}

struct StaticCase {
  const char* name;
  PrefillStatus status;
  std::function<void(Deployment&)> change;
};

/// Every static gate over a deployment that passes; no device anywhere (S-20, S-25).
class StaticGates : public testing::TestWithParam<StaticCase> {};

TEST_P(StaticGates, S20_GivesItsOwnStatus) {
  Deployment d = deployment();
  ASSERT_TRUE(check_deployment(d).ok()) << check_deployment(d).detail;
  GetParam().change(d);
  const Eligibility found = check_deployment(d);
  EXPECT_EQ(to_string(found.status), to_string(GetParam().status)) << found.detail;
  EXPECT_FALSE(found.detail.empty());
}

INSTANTIATE_TEST_SUITE_P(
    C3, StaticGates,
    testing::Values(
        StaticCase{"master", PrefillStatus::kNotRequested, [](Deployment& d) { d.graphs = false; }},
        StaticCase{"feature", PrefillStatus::kNotRequested, [](Deployment& d) { d.prefill_graphs = false; }},
        StaticCase{"topology", PrefillStatus::kTopologyNotSupported,
                   [](Deployment& d) { d.topology.pipeline_parallel = 2; }},
        StaticCase{"dtype", PrefillStatus::kModelNotSupported, [](Deployment& d) { d.dtype_declared = false; }},
        StaticCase{"latent_attention", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.latent_attention = true; }},
        StaticCase{"speculative", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.instance = InstanceKind::kSpeculativeTarget; }},
        StaticCase{"draft", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.instance = InstanceKind::kDraft; }},
        StaticCase{"embedding", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.instance = InstanceKind::kEmbedding; }},
        StaticCase{"micro_batches", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.layer_micro_batches = true; }},
        StaticCase{"no_cache", PrefillStatus::kScratchKvUnavailable, [](Deployment& d) { d.has_cache = false; }},
        StaticCase{"window_group", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) {
                     d.groups.push_back({.tag = "window", .kind = CacheGroupKind::kSlidingWindow});
                     d.n_scratch = {4, 4};
                   }},
        StaticCase{"linear_group", PrefillStatus::kModelNotSupported,
                   [](Deployment& d) { d.groups[0].kind = CacheGroupKind::kLinearState; }},
        StaticCase{"no_ladder", PrefillStatus::kCaptureUnavailable, [](Deployment& d) { d.ladder = {}; }},
        StaticCase{"no_scratch", PrefillStatus::kScratchKvUnavailable, [](Deployment& d) { d.n_scratch.clear(); }},
        StaticCase{"little_scratch", PrefillStatus::kScratchKvUnavailable, [](Deployment& d) { d.n_scratch = {3}; }},
        StaticCase{"scratch_of_one_group", PrefillStatus::kScratchKvUnavailable,
                   [](Deployment& d) { d.groups.push_back({.tag = "second"}); }}),
    [](const auto& info) { return info.param.name; });

TEST(Eligibility, SeveralFullGroupsAreAllowed) {
  Deployment d = deployment();
  d.groups.push_back({.tag = "second"});
  d.n_scratch = {4, 4};
  EXPECT_TRUE(check_deployment(d).ok());
}

/// Gates 8 to 10 are the backend's declarations, nothing else: one that declares the capability is let pass.
TEST(Eligibility, ADeclaredCapabilityOpensItsGate) {
  for (const auto& [need, capability] : std::vector<std::pair<bool RowNeeds::*, bool BackendCapabilities::*>>{
           {&RowNeeds::publish_kv, &BackendCapabilities::publish_kv},
           {&RowNeeds::features, &BackendCapabilities::feature_rows},
           {&RowNeeds::token_types, &BackendCapabilities::token_types}}) {
    GraphLimits l = limits();
    Batch b = mixed();
    b.rows[0].needs.*need = true;
    EXPECT_FALSE(check_batch(l, b).ok());
    l.capabilities.*capability = true;
    EXPECT_TRUE(check_batch(l, b).ok()) << check_batch(l, b).detail;
  }
}

TEST(Eligibility, S82_MorePositionIdsThanTokensAreFineInWholeTokens) {
  GraphLimits l = limits();
  l.position_factor = 3;
  Batch b = mixed();
  b.position_ids.emplace(30, 5);
  EXPECT_TRUE(check_batch(l, b).ok());
  b.position_ids->insert(b.position_ids->end(), 3, -7);  // a further token's, which nobody reads
  EXPECT_TRUE(check_batch(l, b).ok());
  EXPECT_EQ(malformed(l, b), "");
  b.position_ids->push_back(0);
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kGraphInputShapeMismatch);
  EXPECT_EQ(malformed(l, b), "position ids 34, a multiple of 3");
}

TEST(Eligibility, GatesAreAskedInTheirOrder) {  // C.4: of several reasons the first counts
  GraphLimits l = limits();
  Batch b = mixed();
  b.rows[0].needs.prompt_logits = true;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kRequestNotSupported);
  b.rows[0].needs.adapter = true;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kLoraNotSupported);
  b.rows[0].block_tables[0].resize(8, 3);
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kGraphInputShapeMismatch);
  l.ladder = {};
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kInputTokensExceedCaptureLimit);
  b.rows[1].block_tables[0][0] = 0;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kInputMetadataInvalid);
  l.scratch = false;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kScratchKvUnavailable);
  b.rows[1].needs.token_types = true;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kTokenTypeInputNotSupported);
  b.rows[1].needs.features = true;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kMultimodalInputNotSupported);
  b.rows[1].needs.publish_kv = true;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kPdCacheStoreNotSupported);
  l.capabilities.paged_prefix = false;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kPrefixCacheNotSupported);
  b.input_ids.push_back(1);
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kInputMetadataInvalid);
  l.max_seq_len = 28;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kInputTokensExceedCaptureLimit);
  l.max_rows = 1;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kRequestCountExceedCaptureLimit);
  l.capabilities.mixed_rows = false;
  EXPECT_EQ(check_batch(l, b).status, PrefillStatus::kMixedPrefillDecodeNotSupported);
}

TEST(Eligibility, S24_AMissingInputIsAReasonAndNeverAnAssertion) {
  const auto of = [](auto omit) {
    GraphLimits l = limits();
    l.position_factor = 3;
    Batch b = mixed();
    b.position_ids.emplace(30, 1);
    EXPECT_TRUE(check_batch(l, b).ok());
    omit(b);
    EXPECT_NE(malformed(l, b), "") << "no forward could run it either";
    return check_batch(l, b).status;
  };
  EXPECT_EQ(of([](Batch& b) { b.rows.clear(); }), PrefillStatus::kNotRequested);
  EXPECT_EQ(of([](Batch& b) { b.input_ids.clear(); }), PrefillStatus::kInputMetadataInvalid);
  EXPECT_EQ(of([](Batch& b) { b.rows[1].block_tables.clear(); }), PrefillStatus::kInputMetadataInvalid);
  EXPECT_EQ(of([](Batch& b) { b.rows[1].block_tables[0].clear(); }), PrefillStatus::kInputMetadataInvalid);
  EXPECT_EQ(of([](Batch& b) { b.rows[0].n_tokens = 0; }), PrefillStatus::kInputMetadataInvalid);
  EXPECT_EQ(of([](Batch& b) { b.position_ids.reset(); }), PrefillStatus::kGraphInputShapeMismatch);
  EXPECT_EQ(of([](Batch& b) { b.group_tags.clear(); }), PrefillStatus::kInputMetadataInvalid);
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
  b = mixed();
  b.rows[1].prefix = -2;
  EXPECT_EQ(malformed(limits(), b), "prefix -2, at least 0");
  b = batch({row(41, 60, true)});
  EXPECT_EQ(malformed(limits(), b), "sequence length 101, max_seq_len 100");
}

}  // namespace
}  // namespace monograph
