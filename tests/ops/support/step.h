// A step on a CPU backend, for op tests: staged as a forward would find it, fetched and derived.
#pragma once
#include <memory>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "device/cpu/cpu_device.h"
#include "ops/backend.h"

namespace monograph::test {

/// Printed once per program; every random choice follows from it.
std::uint64_t seed();

struct Row {
  int n_tokens = 1;
  int prefix = 0;
  std::vector<std::int32_t> ids;    ///< n_tokens; empty: zeros
  std::vector<std::int32_t> table;  ///< blocks
  SlotSampling sampling;
  std::vector<BiasEntry> bias;
  std::vector<std::int32_t> banned;
  std::vector<std::int32_t> found;  ///< First ids of the prefix that the history lacks.
};

/// Buffers of one shape and the two input nodes.
class Step {
 public:
  Step(Backend& backend, const InputShape& shape, std::vector<std::int32_t> scratch_blocks = {});

  /// Stages into the next host area, fetches and derives; returns what ops read.
  const StepInputs& run(const std::vector<Row>& rows, int capacity, bool skip_padding = true);
  const StepInputs& inputs() const { return in_; }
  std::int32_t* history(int row) { return history_.as<std::int32_t>() + std::int64_t{row} * shape_.max_seq_len; }
  std::int32_t* history_lens() { return history_lens_.as<std::int32_t>(); }
  std::byte* host_area(int i) { return host_[i].as<std::byte>(); }
  const StagingLayout& layout() const { return layout_; }

 private:
  void stage(std::byte* area, const std::vector<Row>& rows, int capacity);

  Backend& backend_;
  InputShape shape_;
  StagingLayout layout_;
  std::vector<std::int32_t> scratch_blocks_;
  Buffer host_[2], device_area_, derived_, history_, history_lens_, found_, selector_;
  StepInputs in_;
};

Backend cpu_backend(const std::string& target = "", DType activations = DType::kF32, int threads = 2);

/// Owns a tensor's memory.
template <int Rank>
struct OwnedTensor {
  std::vector<float> f32;
  std::vector<bf16> bf;
  std::array<int, Rank> shape{};
  OwnedTensor(DType dtype, std::array<int, Rank> extents) : shape(extents) {
    std::size_t n = 1;
    for (int extent : extents) n *= static_cast<std::size_t>(extent);
    if (dtype == DType::kF32)
      f32.resize(n);
    else
      bf.resize(n);
  }
  Tensor<Rank> view() {
    if (bf.empty()) return {f32.data(), DType::kF32, shape};
    return {bf.data(), DType::kBF16, shape};
  }
  std::size_t size() const { return bf.empty() ? f32.size() : bf.size(); }
  float at(std::size_t i) const { return bf.empty() ? f32[i] : to_float(bf[i]); }
  void set(std::size_t i, float value) {
    if (bf.empty())
      f32[i] = value;
    else
      bf[i] = to_bf16(value);
  }
};

std::vector<float> random_floats(std::mt19937_64& random, std::size_t n, float scale = 1.0f);
/// Random but finite blocks of a file type.
std::vector<std::byte> random_blocks(std::mt19937_64& random, DType dtype, int rows, int cols);
/// The same weights as floats, by base/dequantise.h, which is tested against gguf-py.
std::vector<float> dequantised(DType dtype, const std::vector<std::byte>& bytes, int rows, int cols);

inline constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                                         DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

}  // namespace monograph::test
