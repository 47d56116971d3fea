#include "model/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "monograph/error.h"
#include "tests/model/support/files.h"

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

TEST(OpenModel, OneFileOfAFolderNamesTheFolder) {
  const std::string path = files::kModels + "llama-gqa/model.safetensors";
  EXPECT_EQ(error_of(path).what(), "--model " + path + ": one file of a model; give the folder that holds it");
}

TEST(OpenModel, FolderWithoutWeightsSaysWhatIsMissing) {
  const files::TempFolder folder;
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("neither config.json nor a .gguf file"));
  std::filesystem::copy_file(files::kModels + "llama-gqa/config.json", folder.file("config.json"));
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
}

TEST(OpenModel, OneGgufFileInAFolderOpens) {
  const files::TempFolder folder;
  std::filesystem::copy_file(files::kModels + "width64-q4_0.gguf", folder.file("some.gguf"));
  EXPECT_EQ(open_model(folder.path())->config().name, "width64");
  std::filesystem::copy_file(files::kModels + "llama-gqa/config.json", folder.file("config.json"));
  EXPECT_EQ(open_model(folder.path())->config().name, "width64");
  std::filesystem::copy_file(files::kModels + "width64-q4_1.gguf", folder.file("other.gguf"));
  std::filesystem::remove(folder.file("config.json"));
  EXPECT_THAT(error_of(folder.path()).what(), HasSubstr("several .gguf files; give one of them"));
}

TEST(OpenModel, WhatIsNoRegularFileIsRefused) {
  const files::TempFolder folder;
  const std::string pipe = folder.file("pipe.gguf");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of(pipe).what(), HasSubstr("pipe.gguf: not a regular file"));
}

}  // namespace
}  // namespace monograph
