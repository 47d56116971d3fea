#include "bench_floor.h"

#include <gtest/gtest.h>

#include "lane.h"

namespace monograph::app {
namespace {

ModelConfig public_shape(const std::string& name) {
  EngineConfig config;
  config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/" + name;
  config.load_format = "dummy";
  return open_files(config)->config();
}

// By hand: Qwen3-0.6B has 440.4 million weights in its layers and 155.6 million in its head.
TEST(Floor, ShortPromptsAreBoundByBytes) {
  const double us = floor_us(public_shape("Qwen3-0.6B"), 1, {4.0, 1e9});
  EXPECT_NEAR(us, 2 * (440.4 + 155.6) / 4.0, 0.5);
}

TEST(Floor, LongPromptsAreBoundByOperations) {
  const double linear = 2 * 2048 * 440.4e6, attention = 28 * 2.0 * 2048 * 2048 * 16 * 128, head = 2 * 155.6e6;
  EXPECT_NEAR(floor_us(public_shape("Qwen3-0.6B"), 2048, {1e9, 790}), (linear + attention + head) / 790e6, 1);
}

TEST(Floor, IsTheLargerOfBoth) {
  const ModelConfig model = public_shape("Qwen3-8B");
  for (int n : {1, 256, 8192}) {
    const double bytes = floor_us(model, n, {4.55, 1e9}), operations = floor_us(model, n, {1e9, 790});
    EXPECT_DOUBLE_EQ(floor_us(model, n, {4.55, 790}), std::max(bytes, operations));
  }
  EXPECT_FALSE((Ceilings{4.55, 0}).known());
}

TEST(PublicShapes, OpenAsModels) {
  const std::pair<const char*, double> billions[] = {
      {"Qwen3-0.6B", 0.596},   {"Qwen3-1.7B", 1.72},   {"Qwen3-4B", 4.02},      {"Qwen3-8B", 8.19},
      {"Llama-3.2-1B", 1.236}, {"Llama-3.1-8B", 8.03}, {"SmolLM2-135M", 0.1345}};
  for (const auto& [name, expected] : billions) {
    EngineConfig config;
    config.model = std::string(MONOGRAPH_SOURCE_DIR) + "/bench/configs/" + name;
    config.load_format = "dummy";
    const double parameters = static_cast<double>(open_files(config)->file_bytes()) / 2e9;
    EXPECT_NEAR(parameters, expected, 0.005 * expected) << name;
  }
}

}  // namespace
}  // namespace monograph::app
