#include "model/model_files.h"

#include <filesystem>

#include "model/file_reader.h"
#include "model/stored_model.h"
#include "monograph/error.h"

namespace monograph {
namespace {

namespace fs = std::filesystem;

// "org/name" with the characters that hubs allow; a path that somebody meant looks different or exists.
bool looks_like_hub_id(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  if (text.find('/', slash + 1) != std::string::npos || text[0] == '.' || text[0] == '~') return false;
  return !text.ends_with(".gguf") && text.find_first_of("\\: ") == std::string::npos;
}

[[noreturn]] void fail_missing(const std::string& path) {
  if (looks_like_hub_id(path))
    throw Error(ErrorCode::kNotFound,
                "--model " + printable(path) +
                    ": no such file or folder; if it is a hub id, download the model first "
                    "and give the path of its folder or .gguf file",
                "model");
  throw Error(ErrorCode::kNotFound,
              "--model " + printable(path) +
                  ": no such file or folder; give a .gguf file or a "
                  "folder with config.json and *.safetensors",
              "model");
}

// The one model in a folder without config.json: a single .gguf file, or the first part of a single split set.
std::string only_gguf_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto of = name.rfind("-of-");
    const bool later_part = of != std::string::npos && of >= 6 && name.size() == of + 14 && name[of - 6] == '-' &&
                            name.compare(of - 5, 5, "00001") != 0;
    if (name.ends_with(".gguf") && !later_part) found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found[0];
  throw Error(ErrorCode::kNotFound,
              "--model " + printable(folder) + ": the folder has " +
                  (found.empty() ? "neither config.json nor a .gguf file" : "several .gguf files; give one of them"),
              "model");
}

}  // namespace

std::unique_ptr<ModelFiles> open_model(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (path.empty() || !fs::exists(status)) fail_missing(path);
  if (!fs::is_directory(status)) return open_gguf_model(path);
  if (fs::exists(path + "/config.json", error)) return open_hf_model(path);
  return open_gguf_model(only_gguf_in(path));
}

}  // namespace monograph
