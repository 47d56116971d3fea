#include "graph/ladder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>

#include "monograph/error.h"

namespace monograph {
namespace {

TEST(DefaultLadder, DocumentedExamples) {
  EXPECT_EQ(default_ladder(2048, 8192), (std::vector<int>{16,  32,  64,  128, 160, 192,  224,  256,  320,  384,
                                                          448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048}));
  EXPECT_EQ(default_ladder(2048, 4), (std::vector<int>{4}));
  EXPECT_EQ(default_ladder(2048, 64), (std::vector<int>{16, 32, 64}));
  EXPECT_EQ(default_ladder(2048, 159), (std::vector<int>{16, 32, 64, 128, 159}));
  EXPECT_EQ(default_ladder(2048, 160), (std::vector<int>{16, 32, 64, 128, 160}));
  EXPECT_EQ(default_ladder(8192, 8192).size(), 28u);
  EXPECT_EQ(default_ladder(65536, 131072).size(), 40u);
}

TEST(DefaultLadder, InvariantsForManyModels) {  // S-13
  for (int chunk : {1, 2, 15, 16, 17, 100, 128, 129, 160, 2047, 2048, 5000, 8192, 65536}) {
    for (int max_seq_len : {1, 4, 64, 128, 159, 160, 4096, 32768, 131072}) {
      const auto ladder = default_ladder(chunk, max_seq_len);
      const int last = std::min({chunk, max_seq_len, kMaxBucket});
      ASSERT_FALSE(ladder.empty());
      ASSERT_LE(ladder.size(), static_cast<std::size_t>(kMaxBuckets));
      EXPECT_EQ(ladder.back(), last) << "covers every step the planner can form";
      EXPECT_TRUE(std::is_sorted(ladder.begin(), ladder.end()));
      EXPECT_EQ(std::adjacent_find(ladder.begin(), ladder.end()), ladder.end());
      for (std::size_t i = 1; i < ladder.size(); ++i) {
        const int worst = ladder[i - 1] + 1;
        if (worst <= 128) continue;
        EXPECT_LT(static_cast<double>(ladder[i] - worst) / ladder[i], 0.20) << worst << " in " << ladder[i];
      }
    }
  }
}

TEST(DecodeLadder, EndsWithMaxSeqs) {
  EXPECT_EQ(default_decode_ladder(1), (std::vector<int>{1}));                            // CG18
  EXPECT_EQ(default_decode_ladder(48), (std::vector<int>{1, 2, 4, 8, 16, 24, 32, 48}));  // CG17
  EXPECT_EQ(default_decode_ladder(50), (std::vector<int>{1, 2, 4, 8, 16, 24, 32, 48, 50}));
  EXPECT_EQ(default_decode_ladder(256).back(), 256);
  EXPECT_LE(default_decode_ladder(256).size(), static_cast<std::size_t>(kMaxBuckets));
}

TEST(LadderDeathTest, NothingToServeIsABugOfTheCaller) {
  EXPECT_DEATH(default_ladder(0, 100), "last >= 1");
  EXPECT_DEATH(default_ladder(100, 0), "last >= 1");
  EXPECT_DEATH(default_decode_ladder(0), "max_seqs >= 1");
}

TEST(CheckLadder, SortsAndDropsDuplicates) {
  EXPECT_EQ(check_ladder(std::vector<int>{64, 1, 64, 2048}, 2048, "--knob"), (std::vector<int>{1, 64, 2048}));
}

TEST(CheckLadder, RefusesWithKnobValueAndLimit) {
  const auto message = [](std::vector<int> buckets, int limit) -> std::string {
    try {
      check_ladder(buckets, limit, "--prefill-cuda-graph-capture-config");
      return "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
  };
  EXPECT_EQ(
      message({}, 100),
      "invalid_capture_buckets: --prefill-cuda-graph-capture-config: the list is empty, expected 1 to 64 buckets");
  EXPECT_EQ(message({64, 0}, 100),
            "invalid_capture_buckets: --prefill-cuda-graph-capture-config: bucket 0 is outside 1..100");
  EXPECT_EQ(message({101}, 100),
            "invalid_capture_buckets: --prefill-cuda-graph-capture-config: bucket 101 is outside 1..100");
  EXPECT_EQ(message({INT_MAX}, INT_MAX),
            "invalid_capture_buckets: --prefill-cuda-graph-capture-config: bucket 2147483647 is outside 1..65536");
  std::vector<int> many(65);
  for (int i = 0; i < 65; ++i) many[i] = i + 1;
  EXPECT_EQ(message(many, 100),
            "invalid_capture_buckets: --prefill-cuda-graph-capture-config: 65 buckets, at most 64 are allowed");
  many.pop_back();
  EXPECT_EQ(message(many, 100), "accepted");
}

TEST(PickBucket, SmallestThatFits) {
  const std::vector<int> ladder{16, 32, 64};
  EXPECT_EQ(pick_bucket(ladder, 1), 16);
  EXPECT_EQ(pick_bucket(ladder, 16), 16);
  EXPECT_EQ(pick_bucket(ladder, 17), 32);
  EXPECT_EQ(pick_bucket(ladder, 64), 64);
  EXPECT_EQ(pick_bucket(ladder, 65), std::nullopt);
  EXPECT_EQ(pick_bucket({}, 1), std::nullopt);
}

}  // namespace
}  // namespace monograph
