// Groups are their tags; order means nothing, and a wrong set of tags fails at once. (S-48)
#include "graph/cache_groups.h"

#include <gtest/gtest.h>

#include "graph/role.h"
#include "monograph/error.h"

namespace monograph {
namespace {

const std::vector<CacheGroup> kTwo{{.tag = "full"}, {.tag = "local"}};

std::string refusal(const std::vector<CacheGroup>& groups, const std::vector<GroupBlocks>& given) {
  try {
    order_scratch(groups, given);
    return "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    return e.what();
  }
}

TEST(CacheGroups, S48_ScratchFollowsTheTags) {
  const std::vector<std::vector<std::int32_t>> expected{{1, 2}, {3, 4}};
  EXPECT_EQ(order_scratch(kTwo, std::vector<GroupBlocks>{{"full", {1, 2}}, {"local", {3, 4}}}), expected);
  EXPECT_EQ(order_scratch(kTwo, std::vector<GroupBlocks>{{"local", {3, 4}}, {"full", {1, 2}}}), expected);
  EXPECT_TRUE(order_scratch(kTwo, {}).empty()) << "no scratch at all is a degradation, not a mistake";
}

TEST(CacheGroups, S48_WrongTagsFailAtOnce) {
  EXPECT_EQ(refusal(kTwo, {{"full", {1}}}), "scratch blocks: group \"local\" is missing");
  EXPECT_EQ(refusal(kTwo, {{"full", {1}}, {"local", {2}}, {"window", {3}}}),
            "scratch blocks: the cache has no group \"window\"");
  EXPECT_EQ(refusal(kTwo, {{"full", {1}}, {"full", {2}}}), "scratch blocks: group \"full\" is given twice");
  EXPECT_EQ(refusal(kTwo, {{"full", {1}}, {"", {2}}}), "scratch blocks: a group without a tag");
  EXPECT_EQ(refusal({{.tag = "full"}, {.tag = "full"}}, {{"full", {1}}}),
            "scratch blocks: the cache has two groups \"full\"");
  EXPECT_EQ(refusal({{.tag = ""}}, {{"full", {1}}}), "scratch blocks: a cache group has no tag");
}

TEST(CacheGroups, S48_ABatchNamesItsTablesInAnyOrder) {
  using Tags = std::vector<std::string>;
  EXPECT_EQ(match_tags(kTwo, Tags{"full", "local"}), (std::vector<int>{0, 1}));
  EXPECT_EQ(match_tags(kTwo, Tags{"local", "full"}), (std::vector<int>{1, 0}));
  for (const Tags& wrong :
       {Tags{}, Tags{"full"}, Tags{"full", "full"}, Tags{"full", "window"}, Tags{"full", "local", "window"}})
    EXPECT_EQ(match_tags(kTwo, wrong), std::nullopt);
}

TEST(Role, S33_AutoForEveryInstanceAndBatch) {
  using enum GraphRole;
  const std::optional<GraphRole> none;
  const std::optional<GraphRole> expected[4][3] = {
      //  prefill             decode    verify
      {kExtend, kDecode, none},           // target
      {kExtend, kDecode, kTargetVerify},  // speculative target
      {kMtpDraftPrefill, kDecode, none},  // draft
      {kEmbeddingPrefill, none, none},    // embedding
  };
  for (std::size_t i = 0; i < std::size(kInstanceKinds); ++i)
    for (std::size_t b = 0; b < std::size(kBatchKinds); ++b)
      EXPECT_EQ(auto_role(kInstanceKinds[i], kBatchKinds[b]), expected[i][b])
          << to_string(kInstanceKinds[i]) << ", batch " << b;
  EXPECT_EQ(to_string(kExtend), "extend");
  EXPECT_EQ(to_string(kMtpDraftPrefill), "mtp_draft_prefill");
}

}  // namespace
}  // namespace monograph
