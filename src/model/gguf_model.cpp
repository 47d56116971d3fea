// A GGUF file, or a set of split files, as a model.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/bf16.h"
#include "model/config_gguf.h"
#include "model/fields.h"
#include "model/stored_model.h"

namespace monograph {
namespace {

constexpr int kMaxParts = 99999;  // The five digits of the file name.
constexpr const char* kRopeFreqs = "rope_freqs.weight";

struct Part {
  std::unique_ptr<FileReader> file;
  GgufHeader header;
};

Part open_part(const std::string& path) {
  Part part{open_file(path), {}};
  part.header = read_gguf_header(*part.file);
  return part;
}

// "name-00002-of-00003.gguf".
std::string part_path(const std::string& prefix, int number, int count) {
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", number, count);
  return prefix + suffix;
}

struct Split {
  int no = 0, count = 1, n_tensors = -1;
};

Split split_of(const Part& part) {
  const nlohmann::json scalars = scalars_of(part.header);
  const Fields keys(scalars, part.file->path() + ": ");
  Split split;
  split.count = keys.maybe_integer("split.count", 0, kMaxParts).value_or(1);
  if (split.count <= 1) return {};
  split.no = keys.integer("split.no", 0, split.count - 1);
  split.n_tensors = keys.integer("split.tensors.count", 0, std::numeric_limits<int>::max());
  return split;
}

std::string set_prefix(const std::string& path, const Split& split) {
  const std::string suffix = part_path("", split.no + 1, split.count);
  if (!path.ends_with(suffix))
    throw Error(ErrorCode::kUnreadableFile, path + ": split.no and split.count say that its name ends in " + suffix);
  std::string prefix = path.substr(0, path.size() - suffix.size());
  if (split.no != 0)
    throw Error(ErrorCode::kInvalidArgument, path + ": part " + std::to_string(split.no + 1) + " of " +
                                                 std::to_string(split.count) + "; open the first part, " +
                                                 part_path(prefix, 1, split.count));
  return prefix;
}

void add_other_parts(const std::string& prefix, const Split& first, StoredModel& model) {
  for (int i = 1; i < first.count; ++i) {
    Part part = open_part(part_path(prefix, i + 1, first.count));
    const Split split = split_of(part);
    if (split.no != i || split.count != first.count || split.n_tensors != first.n_tensors)
      throw Error(ErrorCode::kUnreadableFile,
                  part.file->path() + ": split.no, split.count, split.tensors.count: expected " + std::to_string(i) +
                      ", " + std::to_string(first.count) + ", " + std::to_string(first.n_tensors) + ", found " +
                      std::to_string(split.no) + ", " + std::to_string(split.count) + ", " +
                      std::to_string(split.n_tensors));
    model.store.add_file(std::move(part.file), std::move(part.header.tensors));
  }
  const auto n_found = model.store.entries().size();
  if (n_found != static_cast<std::size_t>(first.n_tensors))
    throw Error(ErrorCode::kUnreadableFile, part_path(prefix, 1, first.count) + ": split.tensors.count: expected " +
                                                std::to_string(n_found) + ", the tensors of all parts, found " +
                                                std::to_string(first.n_tensors));
}

// Divisors of the rotation frequencies that the converter worked out from a llama3 configuration.
void read_freq_factors(StoredModel& model) {
  const TensorEntry* entry = model.store.find(kRopeFreqs);
  if (entry == nullptr) return;
  RopeConfig& rope = model.config.rope;
  const std::string where = model.store.file_of(*entry).path() + ": " + kRopeFreqs;
  const std::vector<std::int64_t> expected = {rope.rotary_dim / 2};
  if (entry->shape != expected || entry->dtype != DType::kF32)
    throw Error(ErrorCode::kUnreadableFile, where + ": expected F32 " + shape_text(expected) + ", file has " +
                                                std::string(to_string(entry->dtype)) + " " + shape_text(entry->shape));
  if (rope.kind != RopeConfig::Kind::kDefault)
    throw Error(ErrorCode::kUnsupported, where + ": not supported beside rope.scaling.type");
  const HostTensor tensor = model.store.read(*entry);
  rope.freq_factors.resize(static_cast<std::size_t>(rope.rotary_dim / 2));
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), std::as_writable_bytes(std::span(rope.freq_factors)).begin());
  model.store.release(tensor.name);
  for (const float factor : rope.freq_factors)
    if (!(std::isfinite(factor) && factor > 0.0f))
      throw Error(ErrorCode::kUnreadableFile, where + ": expected positive numbers, found " + std::to_string(factor));
  rope.kind = RopeConfig::Kind::kLlama3;
}

}  // namespace

std::unique_ptr<ModelFiles> open_gguf_model(const std::string& path) {
  Part first = open_part(path);
  const Split split = split_of(first);
  const std::string prefix = split.count > 1 ? set_prefix(path, split) : "";
  auto model = std::make_unique<StoredModel>();
  model->naming = TensorNaming::kGguf;
  model->format = "GGUF v" + std::to_string(first.header.version);
  if (split.count > 1) model->format += " in " + std::to_string(split.count) + " parts";
  model->config = config_from_gguf(first.header, path);
  model->tokenizer = tokenizer_from_gguf(first.header, model->config.vocab_size, path);
  model->generation = generation_from_gguf(first.header, path);
  model->permute_qk = model->config.family == ModelFamily::kLlama;
  if (model->config.name.empty()) model->config.name = printable(std::filesystem::path(path).stem().string());
  model->store.add_file(std::move(first.file), std::move(first.header.tensors));
  if (split.count > 1) add_other_parts(prefix, split, *model);
  model->config.tied_head = model->store.find(tensor_name(TensorNaming::kGguf, ModelTensor::kHead)) == nullptr;
  read_freq_factors(*model);
  check_tensors(model->store, model->config, model->naming, [](std::string_view name) { return name == kRopeFreqs; });
  return make_model_files(std::move(model));
}

}  // namespace monograph
