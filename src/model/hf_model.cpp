// A Hugging Face folder as a model: config.json, safetensors files, and the texts that text/ reads.
#include <filesystem>
#include <map>

#include "model/config_json.h"
#include "model/fields.h"
#include "model/json_file.h"
#include "model/safetensors.h"
#include "model/stored_model.h"

namespace monograph {
namespace {

namespace fs = std::filesystem;

// Far above any real file, and small enough that reading one whole is harmless.
constexpr std::int64_t kMaxConfigBytes = 4 << 20, kMaxIndexBytes = 64 << 20, kMaxTokenizerBytes = 256 << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string text_if_present(const std::string& path) { return exists(path) ? read_text(path, kMaxTokenizerBytes) : ""; }

void add_safetensors(const std::string& path, TensorStore& store) {
  auto file = open_file(path);
  auto entries = read_safetensors_header(*file);
  store.add_file(std::move(file), std::move(entries));
}

// The shards by name, with the tensors that the index puts into each.
std::map<std::string, std::vector<std::string>> read_index(const std::string& path) {
  const nlohmann::json json = read_json_file(path, kMaxIndexBytes);
  const Fields index(json, path + ": ");
  if (!index.maybe_object("weight_map")) index.fail("weight_map", "an object");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const bool is_plain = file.is_string() && file.get<std::string>().ends_with(".safetensors") &&
                          file.get<std::string>().find_first_of(std::string("/\\\0", 3)) == std::string::npos;
    if (!is_plain)
      throw Error(ErrorCode::kUnreadableFile, path + ": weight_map." + printable(tensor) +
                                                  ": expected the name of a .safetensors file in the same folder");
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards;
}

void add_shards(const std::string& folder, const std::string& index_path, TensorStore& store) {
  std::size_t n_indexed = 0;
  for (const auto& [file, tensors] : read_index(index_path)) {
    if (!exists(folder + "/" + file))
      throw Error(ErrorCode::kUnreadableFile, index_path + ": weight_map." + printable(tensors[0]) + ": its file " +
                                                  printable(file) + " is missing");
    add_safetensors(folder + "/" + file, store);
    for (const std::string& tensor : tensors) {
      const TensorEntry* entry = store.find(tensor);
      if (entry == nullptr || store.file_of(*entry).path() != folder + "/" + file)
        throw Error(ErrorCode::kUnreadableFile,
                    index_path + ": weight_map." + printable(tensor) + ": not in its file " + printable(file));
    }
    n_indexed += tensors.size();
  }
  if (n_indexed != store.entries().size())
    throw Error(ErrorCode::kUnreadableFile, index_path + ": weight_map: names " + std::to_string(n_indexed) +
                                                " tensors, its files hold " + std::to_string(store.entries().size()));
}

void add_weights(const std::string& folder, TensorStore& store) {
  const std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (exists(single)) return add_safetensors(single, store);
  if (exists(index)) return add_shards(folder, index, store);
  throw Error(ErrorCode::kNotFound, folder +
                                        ": config.json is here, but neither model.safetensors nor "
                                        "model.safetensors.index.json; other formats of weights are not read");
}

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

bool is_harmless(std::string_view name, const ModelConfig& config) {
  // A tied model may still carry a copy of its head; old files carry the rotation frequencies.
  if (name == tensor_name(TensorNaming::kHuggingFace, ModelTensor::kHead)) return config.tied_head;
  return name.ends_with(".rotary_emb.inv_freq");
}

std::string folder_name(const std::string& folder) {
  const auto path = fs::path(folder).lexically_normal();
  return printable((path.has_filename() ? path : path.parent_path()).filename().string());
}

}  // namespace

std::unique_ptr<ModelFiles> open_hf_model(const std::string& folder) {
  auto model = std::make_unique<StoredModel>();
  model->naming = TensorNaming::kHuggingFace;
  model->format = "safetensors";
  const std::string config_path = folder + "/config.json", generation_path = folder + "/generation_config.json";
  model->config = config_from_json(read_json_file(config_path, kMaxConfigBytes), config_path);
  model->config.name = folder_name(folder);
  if (exists(generation_path))
    model->generation = generation_from_json(read_json_file(generation_path, kMaxConfigBytes), generation_path);
  model->tokenizer = read_tokenizer(folder);
  add_weights(folder, model->store);
  check_tensors(model->store, model->config, model->naming,
                [&](std::string_view name) { return is_harmless(name, model->config); });
  return make_model_files(std::move(model));
}

}  // namespace monograph
