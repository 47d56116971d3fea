// The dense decoder families: Llama (SmolLM2, Mistral-shaped), Qwen2/2.5 (qkv bias) and Qwen3 (per-head q/k norm). They
// differ only in which optional weights a layer has.
#include <memory>

#include "base/check.h"
#include "model/model.h"
#include "model/weights.h"

namespace monograph {
namespace {

class DenseModel : public Model {
 public:
  DenseModel(const ModelConfig& config, Weights weights) : config_(config), weights_(std::move(weights)) {}

  const ModelConfig& config() const override { return config_; }
  std::int64_t weight_bytes() const override { return weights_.bytes; }

  void forward(Ops& ops, const StepInputs& in, std::span<const KvLayer> kv, Activations& a) const override {
    CHECK(kv.size() == weights_.layers.size());
    ops.embed(a.x, *weights_.embedding, norm_of(0), in);
    for (std::size_t i = 0; i < kv.size(); ++i) layer(ops, weights_.layers[i], norm_of(i + 1), in, kv[i], a);
    ops.head_logits(a.logits, a.x, weights_.final_norm, config_.norm_eps, weights_.head(), in);
  }

 private:
  // One decoder layer. `a.x` is the residual stream [C, E], updated in place; whoever updates it is told the norm that
  // reads it next.
  void layer(Ops& ops, const LayerWeights& w, View<const float, 1> next_norm, const StepInputs& in, const KvLayer& kv,
             Activations& a) const {
    ops.project_qkv(a.q, kv, a.x, w.attention, weights_.rope, config_.norm_eps, in);  // K and V go to their blocks
    ops.attend(a.attn, a.q, kv, config_.attention_scale, in);
    ops.add_project(a.x, flat(a.attn), *w.attn_out, w.ffn_norm, in);
    ops.gated_up(a.ffn, a.x, w.ffn_norm, config_.norm_eps, *w.gate_up, in);
    ops.add_project(a.x, a.ffn, *w.down, next_norm, in);
  }

  // The norm that layer i begins with; after the last, the head's.
  View<const float, 1> norm_of(std::size_t i) const {
    return i < weights_.layers.size() ? weights_.layers[i].attention.norm : weights_.final_norm;
  }
  static Tensor<2> flat(const Tensor<3>& t) { return {t.data, t.dtype, {t.shape[0], t.shape[1] * t.shape[2]}}; }

  ModelConfig config_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> load_model(const ModelFiles& files, Backend& backend, int max_seq_len,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return std::make_unique<DenseModel>(files.config(), load_weights(files, backend, max_seq_len, progress));
}

}  // namespace monograph
