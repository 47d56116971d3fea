// The last layer runs on the rows that are sampled where that is faster: which rows it computes shows nowhere. (SPEC
// D8)
#include <gtest/gtest.h>

#include "tests/support/last_rows.h"

namespace monograph {
namespace {

using testing::Lane;
using testing::LaneOptions;

struct Case {
  std::string device;
  DType dtype;
  bool skip_padding;
  int n_layers;
};

class LastRows : public ::testing::TestWithParam<Case> {};

LaneOptions options_of(const Case& c) {
  LaneOptions options;
  options.device = c.device;
  options.activation_dtype = c.dtype;
  options.runner.skip_padding = c.skip_padding;
  options.model.n_layers = c.n_layers;
  return options;
}

TEST_P(LastRows, DoNotShow) { testing::expect_last_rows_do_not_show(options_of(GetParam())); }

// The last layer's K and V may be found by the second group's tables.
TEST_P(LastRows, DoNotShowWithTwoGroupsOfBlocks) {
  LaneOptions options = options_of(GetParam());
  options.group_tags = {"full", "other"};
  testing::expect_last_rows_do_not_show(options);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& device : testing::devices())
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (bool skip_padding : {true, false})
        for (int n_layers : {1, 2})
          if (device == "cpu" || dtype == DType::kBF16) all.push_back({device, dtype, skip_padding, n_layers});
  return all;
}

INSTANTIATE_TEST_SUITE_P(D8, LastRows, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return c.device + (c.dtype == DType::kF32 ? "_f32" : "_bf16") + (c.skip_padding ? "_skip" : "_pad") + "_layers" +
         std::to_string(c.n_layers);
});

// By shapes alone: on the CPU every step that may hold more tokens than rows.
TEST(LastLayer, TheCpuTakesRowsWhereTokensOutnumberThem) {
  LaneOptions options;
  options.runner.prefill_buckets = {4, 6, 7, 32};
  const auto nodes = [&](LastLayer last_layer) {
    options.runner.last_layer = last_layer;
    Lane lane(options);
    std::vector<int> counts;
    for (const CaptureRecord& c : lane.runner().captures())
      if (c.family == "extend") counts.push_back(c.nodes);
    return counts;  // largest bucket first
  };
  const int plain = nodes(LastLayer::kAll).front();
  EXPECT_EQ(nodes(LastLayer::kAll), (std::vector{plain, plain, plain, plain}));
  EXPECT_EQ(nodes(LastLayer::kFaster), (std::vector{plain + 1, plain + 1, plain, plain}));
  EXPECT_EQ(nodes(LastLayer::kSampled), (std::vector{plain + 1, plain + 1, plain + 1, plain}));
}

}  // namespace
}  // namespace monograph
