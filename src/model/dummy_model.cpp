// A model with random weights of real shapes: for tests and measurements that need no download.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/bf16.h"
#include "device/cpu/thread_pool.h"
#include "model/hf_folder.h"
#include "model/stored_model.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr float kDeviation = 0.02f;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(const std::string& name) {
  std::uint64_t seed = 0;
  for (const char c : name) seed = mix(seed ^ static_cast<unsigned char>(c));
  return seed;
}

// The sum of four 16-bit uniforms is close to normal, and the same everywhere because it needs no library function.
float near_normal(std::uint64_t bits) {
  const auto sum = static_cast<int>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float kSumDeviation = 37837.2f;  // 65536 / sqrt(3)
  return static_cast<float>(sum - 2 * 65535) / kSumDeviation;
}

// Billions of values are drawn, so each is one of 65,536 that were made before.
constexpr std::size_t kTableSize = 1 << 16;

float converted(float x, float) { return x; }
bf16 converted(float x, bf16) { return to_bf16(x); }

template <typename T>
std::vector<T> table_of(float mean) {
  std::vector<T> table(kTableSize);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = converted(mean + kDeviation * near_normal(mix(i)), T{});
  return table;
}

/// Value i is the table's entry that the i-th 16 bits of the generator name.
template <typename T>
void fill_from(const std::vector<T>& table, std::uint64_t seed, std::size_t n_values, std::byte* out) {
  constexpr std::int64_t kGrain = 1 << 20;  // a multiple of the 4 values that one draw gives
  cpu::parallel_once(static_cast<std::int64_t>(n_values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); i += 4) {
      const std::uint64_t bits = mix(seed + i / 4);
      const std::size_t n = std::min<std::size_t>(4, static_cast<std::size_t>(end) - i);
      for (std::size_t k = 0; k < n; ++k)
        std::memcpy(out + (i + k) * sizeof(T), &table[bits >> 16 * k & 0xffff], sizeof(T));
    }
  });
}

class DummyModelFiles : public ModelFiles {
 public:
  explicit DummyModelFiles(HfFolder folder) : folder_(std::move(folder)) {
    for (ExpectedTensor& tensor : expected_tensors(folder_.config, TensorNaming::kHuggingFace)) {
      bytes_ += *checked_size(tensor.shape) * block_bytes(dtype());
      const std::string name = tensor.name;
      tensors_.emplace(name, std::move(tensor));
    }
  }

  const ModelConfig& config() const override { return folder_.config; }
  const TokenizerFiles& tokenizer() const override { return folder_.tokenizer; }
  const GenerationDefaults& generation() const override { return folder_.generation; }
  HostTensor tensor(ModelTensor which) const override {
    const bool tied = which == ModelTensor::kHead && folder_.config.tied_head;
    return make(tensor_name(TensorNaming::kHuggingFace, tied ? ModelTensor::kEmbedding : which));
  }
  HostTensor tensor(LayerTensor which, int layer) const override {
    return make(tensor_name(TensorNaming::kHuggingFace, which, layer));
  }
  bool has(LayerTensor which, int layer) const override {
    return tensors_.contains(tensor_name(TensorNaming::kHuggingFace, which, layer));
  }
  bool permute_qk() const override { return false; }
  void release(const HostTensor& tensor) const override {
    const std::lock_guard lock(mutex_);
    held_.erase(tensor.name);
  }
  std::int64_t file_bytes() const override { return bytes_; }
  std::string summary() const override {
    return "dummy, random weights, " + std::to_string(tensors_.size()) + " " + std::string(to_string(dtype()));
  }

 private:
  DType dtype() const { return folder_.is_float32 ? DType::kF32 : DType::kBF16; }

  HostTensor make(const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) throw Error(ErrorCode::kUnreadableFile, name + ": no such tensor in this model");
    const ExpectedTensor& tensor = at->second;
    const auto n_values = static_cast<std::size_t>(*checked_size(tensor.shape));
    const std::size_t n_bytes = n_values * static_cast<std::size_t>(block_bytes(dtype()));
    const std::lock_guard lock(mutex_);
    auto& held = held_[name];
    if (!held) {
      held = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
      fill(tensor, n_values, held.get());
    }
    return {name, dtype(), tensor.shape, {held.get(), n_bytes}};
  }

  void fill(const ExpectedTensor& tensor, std::size_t n_values, std::byte* out) const {
    const float mean = tensor.name.ends_with("norm.weight") ? 1.0f : 0.0f;
    if (folder_.is_float32)
      fill_from(table_of<float>(mean), seed_of(tensor.name), n_values, out);
    else
      fill_from(table_of<bf16>(mean), seed_of(tensor.name), n_values, out);
  }

  HfFolder folder_;
  std::map<std::string, ExpectedTensor> tensors_;
  std::int64_t bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<std::byte[]>> held_;
};

}  // namespace

std::unique_ptr<ModelFiles> open_dummy_model(const std::string& folder) {
  return std::make_unique<DummyModelFiles>(read_hf_folder(folder));
}

}  // namespace monograph
