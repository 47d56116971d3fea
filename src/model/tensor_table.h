// Names, shapes and types that each tensor of a supported model must have, in one table.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/model_files.h"
#include "model/tensor_store.h"

namespace monograph {

/// How a format spells tensor names.
enum class TensorNaming { kGguf, kHuggingFace };

std::string tensor_name(TensorNaming naming, ModelTensor which);
std::string tensor_name(TensorNaming naming, LayerTensor which, int layer);

/// Row-major, as HostTensor states it.
std::vector<std::int64_t> expected_shape(ModelTensor which, const ModelConfig& config);
std::vector<std::int64_t> expected_shape(LayerTensor which, const ModelConfig& config);
/// Whether a model of this configuration has the tensor at all.
bool is_expected(ModelTensor which, const ModelConfig& config);
bool is_expected(LayerTensor which, const ModelConfig& config);
/// Every tensor of such a model, under the names of the format.
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool matrix = false;
};
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, TensorNaming naming);
/// Matrices may be quantised; vectors (norms, biases) are F32, F16 or BF16.
bool is_matrix(LayerTensor which);

/// Throws Error(kUnreadableFile) naming the tensor if one is missing, has another shape or an unfit type, or is not
/// part of such a model (`ignored` says which extra names are harmless).
void check_tensors(const TensorStore& store, const ModelConfig& config, TensorNaming naming,
                   const std::function<bool(std::string_view)>& ignored);

}  // namespace monograph
