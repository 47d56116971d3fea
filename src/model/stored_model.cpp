#include "model/stored_model.h"

#include "monograph/error.h"

namespace monograph {
namespace {

class StoredModelFiles : public ModelFiles {
 public:
  explicit StoredModelFiles(std::unique_ptr<StoredModel> model) : model_(std::move(model)) {}

  const ModelConfig& config() const override { return model_->config; }
  const TokenizerFiles& tokenizer() const override { return model_->tokenizer; }
  const GenerationDefaults& generation() const override { return model_->generation; }

  HostTensor tensor(ModelTensor which) const override {
    // A tied head is the embedding table.
    const bool tied = which == ModelTensor::kHead && model_->config.tied_head;
    return read(tensor_name(model_->naming, tied ? ModelTensor::kEmbedding : which));
  }
  HostTensor tensor(LayerTensor which, int layer) const override { return read(layer_name(which, layer)); }
  bool has(LayerTensor which, int layer) const override {
    return model_->store.find(layer_name(which, layer)) != nullptr;
  }
  bool permute_qk() const override { return model_->permute_qk; }
  void release(const HostTensor& tensor) const override { model_->store.release(tensor.name); }
  std::int64_t file_bytes() const override { return model_->store.file_bytes(); }
  std::string summary() const override { return model_->format + ", " + dtype_histogram(model_->store.entries()); }

 private:
  std::string layer_name(LayerTensor which, int layer) const { return tensor_name(model_->naming, which, layer); }

  HostTensor read(const std::string& name) const {
    const TensorEntry* entry = model_->store.find(name);
    if (entry == nullptr) throw Error(ErrorCode::kUnreadableFile, name + ": missing from the file");
    return model_->store.read(*entry);
  }

  std::unique_ptr<StoredModel> model_;
};

}  // namespace

std::unique_ptr<ModelFiles> make_model_files(std::unique_ptr<StoredModel> model) {
  return std::make_unique<StoredModelFiles>(std::move(model));
}

}  // namespace monograph
