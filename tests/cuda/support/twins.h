// The same op on the CPU backend in bfloat16 and on the GPU, over the same inputs.
#pragma once
#include <cstring>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "tests/ops/support/step.h"
#include "tests/support/devices.h"

namespace monograph::test {

/// Memory of one backend that a test fills and reads from the host.
class Held {
 public:
  Held(Backend& backend, std::int64_t bytes) : backend_(backend), buffer_(backend.device->allocate(bytes)) {}
  template <typename T>
  Held(Backend& backend, const std::vector<T>& values)
      : Held(backend, static_cast<std::int64_t>(values.size() * sizeof(T))) {
    put(values);
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    backend_.device->copy_to_device(buffer_.data(), values.data(),
                                    static_cast<std::int64_t>(values.size() * sizeof(T)));
    backend_.device->synchronize();
  }
  template <typename T>
  std::vector<T> get() const {
    std::vector<T> values(static_cast<std::size_t>(buffer_.bytes()) / sizeof(T));
    backend_.device->synchronize();
    backend_.device->copy_to_host(values.data(), buffer_.data(), buffer_.bytes());
    backend_.device->synchronize();
    return values;
  }
  template <int Rank>
  Tensor<Rank> tensor(std::array<int, Rank> shape) const {
    return {buffer_.data(), DType::kBF16, shape};
  }
  template <typename T, int Rank>
  View<T, Rank> view(std::array<int, Rank> shape) const {
    return {buffer_.as<std::remove_const_t<T>>(), shape};
  }
  void* data() const { return buffer_.data(); }

 private:
  Backend& backend_;
  Buffer buffer_;
};

inline Backend backend_of(const std::string& device) {
  BackendOptions options = testing::named_backend(device);
  options.activation_dtype = DType::kBF16;
  return make_backend(options, Log());
}

/// Normal values as bfloat16.
inline std::vector<bf16> random_bf16(std::mt19937_64& random, std::size_t n, float scale) {
  std::vector<bf16> values(n);
  const auto floats = random_floats(random, n, scale);
  for (std::size_t i = 0; i < n; ++i) values[i] = to_bf16(floats[i]);
  return values;
}

}  // namespace monograph::test
