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
    CHECK(!kv.empty() && kv.size() == weights_.layers.size());
    const std::size_t last = kv.size() - 1;
    ops.embed(a.x, *weights_.embedding, norm_of(0), in);
    for (std::size_t i = 0; i < last; ++i) {
      project(ops, i, in, kv[i], a);
      mix(ops, i, in, kv[i], a);
    }
    project(ops, last, in, kv[last], a);
    if (!in.has_last_rows()) return finish(ops, in, kv[last], a);
    // All K and V are in their blocks: from here on nobody needs a row but those that are sampled.
    const Activations rows = a.last_rows();
    ops.take_rows(rows.x, rows.q, a.x, a.q, in);
    finish(ops, in.last_rows(), kv[last], rows);
  }

 private:
  // A decoder layer's first half: q of every token; K and V go to their blocks. `a.x` is the residual stream [C, E].
  void project(Ops& ops, std::size_t i, const StepInputs& in, const KvLayer& kv, const Activations& a) const {
    ops.project_qkv(a.q, kv, a.x, weights_.layers[i].attention, weights_.rope, config_.norm_eps, in);
  }

  // The other half updates `a.x` in place; whoever does so is told the norm that reads it next.
  void mix(Ops& ops, std::size_t i, const StepInputs& in, const KvLayer& kv, const Activations& a) const {
    const LayerWeights& w = weights_.layers[i];
    ops.attend(a.attn, a.q, kv, config_.attention_scale, in);
    ops.add_project(a.x, flat(a.attn), *w.attn_out, w.ffn_norm, in);
    ops.gated_up(a.ffn, a.x, w.ffn_norm, config_.norm_eps, *w.gate_up, in);
    ops.add_project(a.x, a.ffn, *w.down, norm_of(i + 1), in);
  }

  // The rest of the last layer, and the logits.
  void finish(Ops& ops, const StepInputs& in, const KvLayer& kv, const Activations& a) const {
    mix(ops, weights_.layers.size() - 1, in, kv, a);
    ops.head_logits(a.logits, a.x, weights_.final_norm, config_.norm_eps, weights_.head(), in);
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
