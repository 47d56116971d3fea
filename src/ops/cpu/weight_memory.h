// Memory for packed weights in large pieces, so that the system can back them with huge pages: a decode step reads
// every weight once, and with 4 KiB pages a good part of its time goes into address translation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace monograph::cpu {

class WeightMemory {
 public:
  /// Uninitialised, 64-byte aligned. Matrices share pieces; a piece is freed with the last of them.
  std::shared_ptr<std::byte> allocate(std::int64_t bytes);

 private:
  std::shared_ptr<std::byte> piece_;
  std::int64_t size_ = 0, used_ = 0;
};

}  // namespace monograph::cpu
