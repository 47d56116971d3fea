// Which attention is chosen, and that nothing is chosen by accident. (S-53..S-56)
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/backend.h"

namespace monograph {
namespace {

const AttentionShape kShape{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .dtype = DType::kF32};

AttentionBackend stub(const std::string& name, bool prefill_graph, int head_dim = 64) {
  AttentionBackend backend;
  backend.name = name;
  backend.supports = [head_dim](const AttentionShape& shape) { return shape.head_dim == head_dim; };
  backend.capabilities.prefill_graph = prefill_graph;
  return backend;
}

std::string refusal(const std::vector<AttentionBackend>& candidates, AttentionMode mode) {
  try {
    return "took " + select_attention(candidates, kShape, mode).name;
  } catch (const AttentionUnsupported& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    return e.what();
  }
}

TEST(Attention, S53_NothingIsDeclaredUnlessSaid) {
  const AttentionBackend silent;
  EXPECT_FALSE(silent.refreshes_in_place);
  const BackendCapabilities& c = silent.capabilities;
  for (bool declared : {c.prefill_graph, c.paged_prefix, c.mixed_rows, c.publish_kv, c.feature_rows, c.token_types})
    EXPECT_FALSE(declared);
  EXPECT_EQ(refusal({silent}, AttentionMode::kDefault),
            "none of 1 attentions serves 4 heads over 2 of K and V, head_dim 64, F32")
      << "it does not even say which shapes it serves";
}

TEST(Attention, S55_TheFirstThatFitsServesBothModes) {
  const std::vector<AttentionBackend> candidates{stub("narrow", true, 32), stub("safe", true), stub("last", true)};
  EXPECT_EQ(select_attention(candidates, kShape, AttentionMode::kDefault).name, "safe");
  EXPECT_EQ(&select_attention(candidates, kShape, AttentionMode::kPrefillGraph), &candidates[1]);
}

TEST(Attention, S55_AnUnsafeFirstChoiceIsAnErrorAndNoReasonToDrift) {
  const std::vector<AttentionBackend> candidates{stub("plain", false), stub("safe", true)};
  EXPECT_EQ(select_attention(candidates, kShape, AttentionMode::kDefault).name, "plain");
  EXPECT_EQ(refusal(candidates, AttentionMode::kPrefillGraph),
            "attention plain is not safe in a prefill graph (4 heads over 2 of K and V, head_dim 64, F32)");
}

TEST(Attention, S55_NoCandidate) {
  for (AttentionMode mode : {AttentionMode::kDefault, AttentionMode::kPrefillGraph}) {
    EXPECT_EQ(refusal({}, mode), "none of 0 attentions serves 4 heads over 2 of K and V, head_dim 64, F32");
    EXPECT_EQ(refusal({stub("narrow", true, 32)}, mode),
              "none of 1 attentions serves 4 heads over 2 of K and V, head_dim 64, F32");
  }
}

TEST(Attention, S54_AnUnknownModeIsAnErrorAtOnce) {
  const std::vector<AttentionBackend> candidates{stub("safe", true)};
  try {
    select_attention(candidates, kShape, static_cast<AttentionMode>(7));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInternal);
    EXPECT_STREQ(e.what(), "attention mode 7: expected kDefault or kPrefillGraph");
  }
}

TEST(Attention, TheCpuDeclaresWhatItsTestsProve) {
  BackendOptions options;
  options.device = "cpu";
  options.threads = 1;
  const Backend backend = make_backend(options, Log{});
  const AttentionBackend& chosen = select_attention(backend.attention, kShape, AttentionMode::kPrefillGraph);
  const BackendCapabilities& c = chosen.capabilities;
  EXPECT_TRUE(chosen.refreshes_in_place && c.prefill_graph && c.paged_prefix && c.mixed_rows);
  EXPECT_FALSE(c.publish_kv || c.feature_rows || c.token_types);
}

}  // namespace
}  // namespace monograph
