#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/dequantise.h"
#include "tests/model/support/files.h"

namespace monograph {
namespace {

using namespace files;

std::vector<float> values_of(const HostTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(block_bytes(tensor.dtype)));
  dequantise(tensor.dtype, tensor.bytes, values);
  return values;
}

TEST(DummyModel, HasTheShapesOfTheRealOneAndTheSameWeightsEachTime) {
  const TempFolder folder;
  for (const char* name : {"config.json", "tokenizer.json"})
    std::filesystem::copy_file(kModels + "qwen2-bias/" + name, folder.file(name));
  const auto real = open_model(kModels + "qwen2-bias"), dummy = open_dummy_model(folder.path());
  const auto again = open_dummy_model(folder.path());
  for (int i = 0; i <= static_cast<int>(LayerTensor::kDown); ++i) {
    const auto which = static_cast<LayerTensor>(i);
    ASSERT_EQ(real->has(which, 1), dummy->has(which, 1));
    if (!real->has(which, 1)) continue;
    EXPECT_EQ(real->tensor(which, 1).shape, dummy->tensor(which, 1).shape);
    EXPECT_EQ(values_of(dummy->tensor(which, 1)), values_of(again->tensor(which, 1)));
  }
  EXPECT_NE(values_of(dummy->tensor(LayerTensor::kK, 0)), values_of(dummy->tensor(LayerTensor::kV, 0)));
  EXPECT_FALSE(dummy->tokenizer().tokenizer_json.empty());
  EXPECT_EQ(dummy->summary(), "dummy, random weights, 26 BF16");
  EXPECT_THAT(open_dummy_model(kModels + "formats-f32-single-new")->summary(), ::testing::EndsWith(" F32"));
}

TEST(DummyModel, WeightsAreNearNormalWithDeviation002) {
  const auto model = open_dummy_model(kModels + "llama-gqa");
  const auto values = values_of(model->tensor(ModelTensor::kEmbedding));
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 4 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.0005);
  EXPECT_NEAR(values_of(model->tensor(ModelTensor::kFinalNorm))[0], 1.0, 0.1);
  // The stream itself, so that a change on any machine is seen.
  EXPECT_EQ(values_of(model->tensor(ModelTensor::kEmbedding))[0], values[0]);
}

TEST(DummyModel, MissingFolderIsNamed) { EXPECT_THROW(open_dummy_model("/nowhere"), Error); }

}  // namespace
}  // namespace monograph
