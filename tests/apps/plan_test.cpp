// `monograph plan` prints the tables of SPEC A.2; the worked examples of A.3 are what it must say.
#include <gtest/gtest.h>

#include "commands.h"
#include "monograph/error.h"

namespace monograph::app {
namespace {

/// What `plan` prints for these arguments.
std::string plan_of(const std::vector<std::string>& args) {
  Settings settings;
  Options options = make_options(settings);
  const std::string_view groups[] = {kPlanGroup, "Limits"};
  options.parse(args, {}, groups);
  return plan_text(settings);
}

std::string error_of(const std::vector<std::string>& args) {
  try {
    return plan_of(args);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
}

void expect_lines(const std::string& text, const std::vector<std::pair<std::string, std::string>>& lines) {
  for (auto [name, value] : lines) {
    name.resize(20, ' ');
    EXPECT_NE(text.find("\n" + name + value + "\n"), std::string::npos) << name << value << "\nnot in\n" << text;
  }
}

const std::vector<std::string> kExample = {"--max-requests", "3",           "--block-size", "4",
                                           "--scratch",      "90,91,92,93", "--bucket",     "16"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), kExample.begin(), kExample.end());
  return more;
}

TEST(Plan, ExampleOneOfTheSpecification) {
  const std::string text =
      plan_of(with({"--lengths", "5,4", "--prefixes", "0,0", "--tables", "7,2/5", "--position-factor", "3"}));
  EXPECT_TRUE(text.starts_with("C 16, Bmax 3, S 4, R 2, T 9, block size 4, W 4, P 3\n")) << text;
  expect_lines(text, {{"input_lengths", "[5, 4, 0, 7]"},
                      {"prefix_lengths", "[0, 0, 0, 0]"},
                      {"kv_lens", "[5, 4, 0, 7]"},
                      {"cu_seqlens", "[0, 5, 9, 9, 16]"},
                      {"cu_kv_seqlens", "[0, 5, 9, 9, 16]"},
                      {"padding_offset", "5 x 0, 4 x 11, 7 x 39"},
                      {"positions", "0..4, 0..3, 0..6"},
                      {"block_table", "[7,2,0,0] / [5,0,0,0] / [0,0,0,0] / [90,91,92,93]"},
                      {"kv_locs", "28..31, 8, 20..23, 360..366"},
                      {"sample_rows", "[4, 8]"},
                      {"input_ids", "real [0,9), pad id [9,16)"},
                      {"combo_position_ids", "copy [0,27), zero [27,48)"},
                      {"KV writes", "block 7: 0-3, block 2: 4, block 5: 5-8"},
                      {"with padding", "block 90: 9-12, block 91: 13-15"},
                      {"causal pairs", "25 real, 28 sentinel (computed only with --skip-padding=false)"}});
}

TEST(Plan, ExampleTwoMixesAChunkAndADecodeRow) {
  const std::string text = plan_of(with({"--lengths", "5,1", "--prefixes", "8,6", "--tables", "7,2,9,4/5,6"}));
  EXPECT_TRUE(text.starts_with("C 16, Bmax 3, S 4, R 2, T 6, block size 4, W 4, P 0\n")) << text;
  expect_lines(text, {{"input_lengths", "[5, 1, 0, 10]"},
                      {"prefix_lengths", "[8, 6, 0, 0]"},
                      {"kv_lens", "[13, 7, 0, 10]"},
                      {"cu_seqlens", "[0, 5, 6, 6, 16]"},
                      {"cu_kv_seqlens", "[0, 13, 20, 20, 30]"},
                      {"padding_offset", "5 x 0, 1 x 11, 10 x 42"},
                      {"positions", "8..12, 6, 0..9"},
                      {"block_table", "[7,2,9,4] / [5,6,0,0] / [0,0,0,0] / [90,91,92,93]"},
                      {"kv_locs", "36..39, 16, 26, 360..369"},
                      {"sample_rows", "[4, 5]"},
                      {"combo_position_ids", "none"},
                      {"KV writes", "block 9: 0-3, block 4: 4, block 6: 5"},
                      {"causal pairs", "62 real, 55 sentinel (computed only with --skip-padding=false)"}});
}

TEST(Plan, MoreVectors) {
  const auto plan64 = [](const char* lengths) {
    return plan_of({"--lengths", lengths, "--bucket", "64", "--max-requests", "4", "--block-size", "16"});
  };
  expect_lines(plan64("24,32"),
               {{"cu_seqlens", "[0, 24, 56, 56, 56, 64]"}, {"padding_offset", "24 x 0, 32 x 40, 8 x 200"}});
  expect_lines(
      plan64("64"),
      {{"cu_seqlens", "[0, 64, 64, 64, 64, 64]"}, {"input_lengths", "[64, 0, 0, 0, 0]"}, {"with padding", "none"}});
  expect_lines(plan64("16,16,16,16"), {{"padding_offset", "16 x 0, 16 x 48, 16 x 96, 16 x 144"}});
}

TEST(Plan, DefaultsComeFromTheLadderAndCountBlocksUp) {
  const std::string text = plan_of({"--lengths", "129,1"});
  EXPECT_TRUE(text.starts_with("C 160, Bmax 2, S 3, R 2, T 130, block size 64, W 3, P 0\n")) << text;
  expect_lines(text, {{"block_table", "[1,2,3] / [4,0,0] / [5,6,7]"}});
}

TEST(Plan, RefusesWhatHasNoLayout) {
  EXPECT_EQ(error_of({}), "--lengths: missing, expected the new tokens of each sequence, as 5,4");
  EXPECT_EQ(error_of({"--lengths", "5,0"}), "--lengths: \"0\" is outside 1..65536");
  EXPECT_EQ(error_of({"--lengths", "5,4", "--prefixes", "1"}), "--prefixes: 1 entries for 2 sequences");
  EXPECT_EQ(error_of({"--lengths", "5,4", "--tables", "1"}), "--tables: 1 entries for 2 sequences");
  EXPECT_EQ(error_of({"--lengths", "5,4", "--bucket", "8"}), "--bucket: 8 is below the 9 tokens given");
  EXPECT_EQ(error_of({"--lengths", "5,4", "--max-requests", "1"}), "--max-requests: 1 is below the 2 sequences given");
  EXPECT_EQ(error_of({"--lengths", "3000"}),
            "--lengths: 3000 tokens in all, the default ladder ends at 2048; give --bucket or --chunk-size");
  EXPECT_EQ(error_of({"--lengths", "65", "--tables", "3"}), "--tables: sequence 0 needs 2 blocks, 1 are given");
  EXPECT_EQ(error_of({"--lengths", "65", "--scratch", "3"}),
            "--scratch: 2 blocks are needed for the bucket, 1 are given");
  EXPECT_EQ(error_of({"--lengths", "1", "--tables", "2147483647"}),
            "--tables, --scratch: block 2147483647 is outside the int32 places of a cache");
  EXPECT_EQ(error_of({"--lengths", "1", "--max-requests", "1024", "--block-size", "1", "--max-seq-len", "16777216"}),
            "--block-size: a table of 1025 rows and 16777216 blocks is too large to print");
}

}  // namespace
}  // namespace monograph::app
