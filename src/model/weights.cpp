#include "model/weights.h"

#include <cstring>
#include <string>

#include "base/bf16.h"
#include "model/rope.h"
#include "monograph/error.h"

namespace monograph {
namespace {

/// Row r of the half-split rotation order is this row of a file that holds rotation pairs side by side.
std::vector<int> unpermuted_rows(int n_heads, int head_dim) {
  std::vector<int> order;
  order.reserve(static_cast<std::size_t>(n_heads) * head_dim);
  for (int head = 0; head < n_heads; ++head)
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < head_dim / 2; ++i) order.push_back(head * head_dim + 2 * i + half);
  return order;
}

std::vector<float> to_floats(const HostTensor& tensor) {
  std::int64_t n = 1;
  for (auto extent : tensor.shape) n *= extent;
  std::vector<float> values(static_cast<std::size_t>(n));
  const auto convert = [&](auto element) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&element, tensor.bytes.data() + i * sizeof element, sizeof element);
      values[i] = to_float(element);
    }
  };
  switch (tensor.dtype) {
    case DType::kF32:
      convert(0.0f);
      break;
    case DType::kF16:
      convert(f16{});
      break;
    case DType::kBF16:
      convert(bf16{});
      break;
    default:
      throw Error(ErrorCode::kUnsupported,
                  tensor.name + ": expected F32, F16 or BF16 values, file has " + std::string(to_string(tensor.dtype)));
  }
  return values;
}

class Loader {
 public:
  Loader(const ModelFiles& files, Backend& backend, const std::function<void(std::int64_t, std::int64_t)>& progress)
      : files_(files), config_(files.config()), backend_(backend), progress_(progress) {}

  Weights load(int max_seq_len) {
    weights_.embedding = pack({files_.tensor(ModelTensor::kEmbedding)}, MatrixRole::kEmbedding);
    if (!config_.tied_head) weights_.own_head = pack({files_.tensor(ModelTensor::kHead)}, MatrixRole::kEmbedding);
    weights_.final_norm = vector(files_.tensor(ModelTensor::kFinalNorm));
    for (int layer = 0; layer < config_.n_layers; ++layer) weights_.layers.push_back(load_layer(layer));
    load_rope(max_seq_len);
    return std::move(weights_);
  }

 private:
  LayerWeights load_layer(int layer) {
    LayerWeights w;
    const auto tensor = [&](LayerTensor which) { return files_.tensor(which, layer); };
    w.attention.norm = vector(tensor(LayerTensor::kAttnNorm));
    w.qkv = pack_qkv(layer);
    w.attention.qkv = w.qkv.get();
    if (config_.qkv_bias) w.attention.bias = qkv_bias(layer);
    if (config_.qk_norm) {
      w.attention.q_norm = vector(tensor(LayerTensor::kQNorm));
      w.attention.k_norm = vector(tensor(LayerTensor::kKNorm));
    }
    w.attn_out = pack({tensor(LayerTensor::kAttnOut)}, MatrixRole::kPlain);
    w.ffn_norm = vector(tensor(LayerTensor::kFfnNorm));
    w.gate_up = pack({tensor(LayerTensor::kGate), tensor(LayerTensor::kUp)}, MatrixRole::kGateUp);
    w.down = pack({tensor(LayerTensor::kDown)}, MatrixRole::kPlain);
    return w;
  }

  std::unique_ptr<PackedMatrix> pack_qkv(int layer) {
    const HostTensor q = files_.tensor(LayerTensor::kQ, layer), k = files_.tensor(LayerTensor::kK, layer),
                     v = files_.tensor(LayerTensor::kV, layer);
    std::vector<int> q_order, k_order;
    if (files_.permute_qk()) {
      q_order = unpermuted_rows(config_.n_heads, config_.head_dim);
      k_order = unpermuted_rows(config_.n_kv_heads, config_.head_dim);
    }
    return pack({q, k, v}, MatrixRole::kQkv, {q_order, k_order, {}});
  }

  View<const float, 1> qkv_bias(int layer) {
    std::vector<float> bias;
    const auto append = [&](LayerTensor which, int n_heads) {
      const std::vector<float> part = to_floats(files_.tensor(which, layer));
      if (!files_.permute_qk() || which == LayerTensor::kVBias) {
        bias.insert(bias.end(), part.begin(), part.end());
        return;
      }
      for (int row : unpermuted_rows(n_heads, config_.head_dim)) bias.push_back(part[row]);
    };
    append(LayerTensor::kQBias, config_.n_heads);
    append(LayerTensor::kKBias, config_.n_kv_heads);
    append(LayerTensor::kVBias, config_.n_kv_heads);
    return upload(bias);
  }

  std::unique_ptr<PackedMatrix> pack(std::vector<HostTensor> tensors, MatrixRole role,
                                     std::vector<std::vector<int>> orders = {}) {
    orders.resize(tensors.size());
    std::vector<MatrixPart> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      parts.push_back({tensors[i].dtype, static_cast<int>(tensors[i].shape[0]), static_cast<int>(tensors[i].shape[1]),
                       tensors[i].bytes, std::move(orders[i])});
    auto packed = backend_.ops->pack(parts, role, config_.head_dim);
    weights_.bytes += packed->bytes();
    for (const HostTensor& tensor : tensors) {
      done_ += static_cast<std::int64_t>(tensor.bytes.size());
      files_.release(tensor);
    }
    if (progress_) progress_(done_, files_.file_bytes());
    return packed;
  }

  View<const float, 1> vector(const HostTensor& tensor) { return upload(to_floats(tensor)); }

  View<const float, 1> upload(const std::vector<float>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
    Buffer buffer = backend_.device->allocate(bytes);
    backend_.device->copy_to_device(buffer.data(), values.data(), bytes);
    backend_.device->synchronize();
    const View<const float, 1> view{buffer.as<const float>(), {static_cast<int>(values.size())}};
    weights_.bytes += bytes;
    weights_.vectors.push_back(std::move(buffer));
    return view;
  }

  void load_rope(int max_seq_len) {
    const RopeAngles angles = rope_angles(config_.rope, max_seq_len);
    const int half = config_.rope.rotary_dim / 2;
    weights_.rope.cos = {upload(angles.cos).data, {max_seq_len, half}};
    weights_.rope.sin = {upload(angles.sin).data, {max_seq_len, half}};
    weights_.rope.rotary_dim = config_.rope.rotary_dim;
    for (std::size_t section = 0; section < config_.rope.mrope_sections.size(); ++section)
      weights_.rope.id_of_frequency.insert(weights_.rope.id_of_frequency.end(), config_.rope.mrope_sections[section],
                                           static_cast<int>(section));
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  Backend& backend_;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  Weights weights_;
  std::int64_t done_ = 0;
};

}  // namespace

Weights load_weights(const ModelFiles& files, Backend& backend, int max_seq_len,
                     const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return Loader(files, backend, progress).load(max_seq_len);
}

}  // namespace monograph
