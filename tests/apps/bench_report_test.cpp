#include "bench_report.h"

#include <gtest/gtest.h>

namespace monograph::app {
namespace {

std::vector<BenchRow> two_rows() {
  std::vector<BenchRow> rows;
  for (int n : {16, 512}) {
    BenchRow row;
    row["model"] = "a \"small\" one";
    row["n_prompt"] = n;
    row["graph_us"] = n * 1.25;
    row["samples_us"] = {1.0, 2.0};
    rows.push_back(row);
  }
  return rows;
}

TEST(BenchReport, MarkdownHasOneColumnPerKeyWithoutSamples) {
  EXPECT_EQ(report(two_rows(), "md"),
            "| model | n_prompt | graph_us |\n| --- | ---: | ---: |\n"
            "| a \"small\" one | 16 | 20.0 |\n| a \"small\" one | 512 | 640.0 |\n");
}

TEST(BenchReport, OneLongRowStandsUpright) {
  BenchRow row;
  for (int i = 0; i < 17; ++i) row["key" + std::to_string(i)] = i;
  EXPECT_TRUE(report({row}, "md").starts_with("| | |\n| --- | ---: |\n| key0 | 0 |\n| key1 | 1 |\n"));
}

TEST(BenchReport, CsvQuotesText) {
  EXPECT_EQ(report(two_rows(), "csv"),
            "model,n_prompt,graph_us\n\"a \"\"small\"\" one\",16,20.0\n\"a \"\"small\"\" one\",512,640.0\n");
}

TEST(BenchReport, JsonKeepsEverything) {
  const auto back = nlohmann::ordered_json::parse(report(two_rows(), "json"));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[1]["n_prompt"], 512);
  EXPECT_EQ(back[1]["samples_us"].size(), 2u);
}

TEST(BenchReport, Statistics) {
  const Stats s = stats_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.median, 2);
  EXPECT_DOUBLE_EQ(s.p99, 4);
  EXPECT_NEAR(s.stddev, 1.29099, 1e-4);
  EXPECT_EQ(stats_of({}).mean, 0);
  EXPECT_EQ(stats_of({7}).stddev, 0);
}

}  // namespace
}  // namespace monograph::app
