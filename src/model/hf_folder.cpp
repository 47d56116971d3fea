#include "model/hf_folder.h"

#include <filesystem>

#include "model/config_json.h"
#include "model/fields.h"
#include "model/file_reader.h"
#include "model/json_file.h"

namespace monograph {
namespace {

namespace fs = std::filesystem;

// Far above any real file, and small enough that reading one whole is harmless.
constexpr std::int64_t kMaxConfigBytes = 4 << 20, kMaxTokenizerBytes = 256 << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string text_if_present(const std::string& path) { return exists(path) ? read_text(path, kMaxTokenizerBytes) : ""; }

// tokenizer_config.json holds one template, or a list of named ones of which "default" counts.
std::string template_in_config(const std::string& text, const std::string& path) {
  if (text.empty()) return "";
  const nlohmann::json json = parse_file_json(text, path);
  const Fields fields(json, path + ": ");
  if (!fields.is_list("chat_template")) return fields.maybe_string("chat_template").value_or("");
  for (const auto& item : json["chat_template"]) {
    const Fields named(item, path + ": chat_template: ");
    if (named.string("name") == "default") return named.string("template");
  }
  return "";
}

TokenizerFiles read_tokenizer(const std::string& folder) {
  TokenizerFiles files;
  files.tokenizer_json = text_if_present(folder + "/tokenizer.json");
  files.tokenizer_config_json = text_if_present(folder + "/tokenizer_config.json");
  files.chat_template = text_if_present(folder + "/chat_template.jinja");
  if (files.chat_template.empty())
    files.chat_template = template_in_config(files.tokenizer_config_json, folder + "/tokenizer_config.json");
  return files;
}

std::string folder_name(const std::string& folder) {
  const auto path = fs::path(folder).lexically_normal();
  return printable((path.has_filename() ? path : path.parent_path()).filename().string());
}

bool says_float32(const nlohmann::json& json, const std::string& path) {
  const Fields fields(json, path + ": ");
  return fields.maybe_string(fields.has("dtype") ? "dtype" : "torch_dtype") == "float32";
}

}  // namespace

HfFolder read_hf_folder(const std::string& folder) {
  const std::string config_path = folder + "/config.json", generation_path = folder + "/generation_config.json";
  const nlohmann::json json = read_json_file(config_path, kMaxConfigBytes);
  HfFolder all;
  all.config = config_from_json(json, config_path);
  all.config.name = folder_name(folder);
  all.is_float32 = says_float32(json, config_path);
  if (exists(generation_path))
    all.generation = generation_from_json(read_json_file(generation_path, kMaxConfigBytes), generation_path);
  all.tokenizer = read_tokenizer(folder);
  return all;
}

}  // namespace monograph
