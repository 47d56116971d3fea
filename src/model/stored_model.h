// A model whose tensors lie in files: what GGUF files and Hugging Face folders have in common once they are opened.
#pragma once
#include <memory>
#include <string>

#include "model/model_files.h"
#include "model/tensor_store.h"
#include "model/tensor_table.h"

namespace monograph {

struct StoredModel {
  ModelConfig config;
  TokenizerFiles tokenizer;
  GenerationDefaults generation;
  TensorStore store;
  TensorNaming naming = TensorNaming::kGguf;
  bool permute_qk = false;
  std::string format;  ///< "GGUF v3", "safetensors".
};

/// The tensors must have passed check_tensors().
std::unique_ptr<ModelFiles> make_model_files(std::unique_ptr<StoredModel> model);

/// A GGUF file, or the first of a split set. Throws as open_model() does.
std::unique_ptr<ModelFiles> open_gguf_model(const std::string& path);
/// A folder with config.json and safetensors files. Throws as open_model() does.
std::unique_ptr<ModelFiles> open_hf_model(const std::string& folder);

}  // namespace monograph
