// A Hugging Face folder with safetensors files as a model.
#include <filesystem>
#include <map>

#include "model/fields.h"
#include "model/hf_folder.h"
#include "model/json_file.h"
#include "model/safetensors.h"
#include "model/stored_model.h"

namespace monograph {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIndexBytes = 64 << 20;  // Far above any real one.

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

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

bool is_harmless(std::string_view name, const ModelConfig& config) {
  // A tied model may still carry a copy of its head; old files carry the rotation frequencies.
  if (name == tensor_name(TensorNaming::kHuggingFace, ModelTensor::kHead)) return config.tied_head;
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

std::unique_ptr<ModelFiles> open_hf_model(const std::string& folder) {
  auto model = std::make_unique<StoredModel>();
  model->naming = TensorNaming::kHuggingFace;
  model->format = "safetensors";
  HfFolder texts = read_hf_folder(folder);
  model->config = std::move(texts.config);
  model->tokenizer = std::move(texts.tokenizer);
  model->generation = std::move(texts.generation);
  add_weights(folder, model->store);
  check_tensors(model->store, model->config, model->naming,
                [&](std::string_view name) { return is_harmless(name, model->config); });
  return make_model_files(std::move(model));
}

}  // namespace monograph
