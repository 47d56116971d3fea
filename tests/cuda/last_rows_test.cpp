// The last layer of each family on the GPU, and of public shapes: which rows it computes shows nowhere. (SPEC D8)
#include "tests/support/last_rows.h"

#include <gtest/gtest.h>

#include "model/model_files.h"
#include "tests/cuda/support/families.h"

namespace monograph {
namespace {

using testing::Family;
using testing::LaneOptions;

class GpuLastRows : public ::testing::TestWithParam<std::tuple<Family, const char*>> {};

TEST_P(GpuLastRows, DoNotShow) {
  const auto& [family, device] = GetParam();
  for (bool skip_padding : {true, false}) {
    SCOPED_TRACE(skip_padding ? "padding skipped" : "padding computed");
    LaneOptions options = testing::on(device, family.config);
    options.runner.skip_padding = skip_padding;
    testing::expect_last_rows_do_not_show(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GpuLastRows,
                         ::testing::Combine(::testing::ValuesIn(testing::families()),
                                            ::testing::Values("cuda", "cuda_sm80")),
                         [](const auto& info) { return std::get<0>(info.param).name + "_" + std::get<1>(info.param); });

/// 64 slots, as an engine has: attention by warpgroups for the last rows too.
class GpuLastRowsOfShapes : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(GpuLastRowsOfShapes, DoNotShow) {
  const auto& [name, max_rows] = GetParam();
  LaneOptions options = testing::on("cuda", {});
  options.files = open_dummy_model(std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/" + name);
  options.runner.max_rows = max_rows;
  testing::expect_last_rows_do_not_show(options);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuLastRowsOfShapes,
                         ::testing::Combine(::testing::Values("SmolLM2-135M", "Qwen3-0.6B"), ::testing::Values(6, 64)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param));
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

// By shapes alone: from 128 tokens on, where there are twice as many as rows.
TEST(GpuLastLayer, RowsAreTakenInLargeBuckets) {
  for (const char* device : {"cuda", "cuda_sm80"}) {
    const Backend backend = make_backend(testing::named_backend(device), Log{});
    for (const auto& [capacity, max_rows, pays] : {std::tuple{16, 1, false},
                                                   {127, 1, false},
                                                   {128, 1, true},
                                                   {128, 64, true},
                                                   {128, 65, false},
                                                   {2048, 256, true}})
      EXPECT_EQ(backend.ops->pays_to_take_rows(capacity, max_rows), pays) << capacity << ", " << max_rows;
  }
}

}  // namespace
}  // namespace monograph
