// Borrowed, row-major views of device memory. A view owns nothing; `const` in T is part of a contract.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "base/dtype.h"

namespace monograph {

template <typename T, int Rank>
struct View {
  T* data = nullptr;
  std::array<int, Rank> shape{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int extent : shape) n *= extent;
    return n;
  }
  std::span<T> span() const { return {data, static_cast<std::size_t>(size())}; }
  /// Readers take views of const.
  template <typename U, typename = std::enable_if_t<std::is_same_v<U, const T> && !std::is_const_v<T>>>
  operator View<U, Rank>() const {
    return {data, shape};
  }
};

/// A view whose element type is known at run time: activations are F32 or BF16 by backend and mode.
template <int Rank>
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::array<int, Rank> shape{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (int extent : shape) n *= extent;
    return n;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace monograph
