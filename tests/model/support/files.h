// Model files made, damaged and opened by tests.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "monograph/error.h"

namespace monograph::files {

inline const std::string kModels = MONOGRAPH_SOURCE_DIR "/tests/golden/models/";

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A folder of its own that ends with this.
class TempFolder {
 public:
  TempFolder() {
    // In memory where that is possible: files that are rewritten a thousand times would wait for a disk.
    const bool in_memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = (in_memory ? "/dev/shm/" : ::testing::TempDir()) + "monograph_model_XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  /// Copies all files of a folder into this one.
  void fill(const std::string& from) const {
    for (const auto& entry : std::filesystem::directory_iterator(from))
      std::filesystem::copy_file(entry, path_ + "/" + entry.path().filename().string(),
                                 std::filesystem::copy_options::overwrite_existing);
  }

 private:
  std::string path_;
};

/// What opening the model and reading every tensor throws; empty if it works.
inline std::string error_of(const std::string& path) {
  try {
    const auto model = open_model(path);
    for (const auto which : {ModelTensor::kEmbedding, ModelTensor::kFinalNorm, ModelTensor::kHead})
      model->release(model->tensor(which));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// One printable line that is neither empty nor endless.
inline void expect_one_line(const std::string& message, const std::string& what) {
  EXPECT_FALSE(message.empty()) << what << ": accepted";
  EXPECT_LT(message.size(), 1000u) << what;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) continue;
    ADD_FAILURE() << what << ": not one printable line: " << message;
    return;
  }
}

/// Bytes by which the peak of resident memory grows during `work`.
inline std::int64_t peak_growth_bytes(const std::function<void()>& work) {
  const auto status_kb = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(key)) return std::stoll(line.substr(key.size() + 1));
    return 0ll;
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // The peak starts again from here.
  const auto before = status_kb("VmRSS");
  work();
  return (status_kb("VmHWM") - before) * 1024;
}

}  // namespace monograph::files
