#include "model/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monograph/error.h"

namespace monograph {
namespace {

using ::testing::HasSubstr;

Error error_of(const std::string& path) {
  try {
    open_model(path);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

TEST(OpenModel, MissingPathSaysWhatToGive) {
  const Error error = error_of("/nowhere/model.gguf");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(
      error.what(),
      "--model /nowhere/model.gguf: no such file or folder; give a .gguf file or a folder with config.json and "
      "*.safetensors");
}

TEST(OpenModel, HubIdSaysToDownload) {
  const Error error = error_of("HuggingFaceTB/SmolLM2-135M-Instruct");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("if it is a hub id, download the model first"));
}

}  // namespace
}  // namespace monograph
