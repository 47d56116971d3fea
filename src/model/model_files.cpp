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

bool has_safetensors(const std::string& folder) {
  const std::string single = folder + "/model.safetensors";
  std::error_code error;
  return fs::exists(single, error) || fs::exists(single + ".index.json", error);
}

// The .gguf files of a folder, of split sets the first part only.
std::vector<std::string> gguf_files_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto of = name.rfind("-of-");
    const bool later_part = of != std::string::npos && of >= 6 && name.size() == of + 14 && name[of - 6] == '-' &&
                            name.compare(of - 5, 5, "00001") != 0;
    if (name.ends_with(".gguf") && !later_part) found.push_back(entry.path().string());
  }
  return found;
}

std::string only_of(const std::vector<std::string>& ggufs, const std::string& folder) {
  if (ggufs.size() == 1) return ggufs[0];
  throw Error(ErrorCode::kNotFound,
              "--model " + printable(folder) + ": the folder has " +
                  (ggufs.empty() ? "neither config.json nor a .gguf file" : "several .gguf files; give one of them"),
              "model");
}

std::unique_ptr<ModelFiles> open_file_model(const std::string& path) {
  if (path.ends_with(".safetensors") || path.ends_with(".json"))
    throw Error(ErrorCode::kNotFound,
                "--model " + printable(path) + ": one file of a model; give the folder that holds it", "model");
  return open_gguf_model(path);
}

}  // namespace

std::unique_ptr<ModelFiles> open_model(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (path.empty() || !fs::exists(status)) fail_missing(path);
  if (!fs::is_directory(status)) return open_file_model(path);
  const bool has_config = fs::exists(path + "/config.json", error);
  const auto ggufs = gguf_files_in(path);
  // A folder may hold a GGUF file beside the config.json that it was converted from.
  if (has_config && (has_safetensors(path) || ggufs.size() != 1)) return open_hf_model(path);
  return open_gguf_model(only_of(ggufs, path));
}

}  // namespace monograph
