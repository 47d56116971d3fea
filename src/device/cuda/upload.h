// Host data that is made piece by piece, on its way to the device: while one piece is copied the next one is written.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/cuda/cuda_device.h"

namespace monograph {

class Upload {
 public:
  /// Two pinned pieces of this size. The device outlives it.
  Upload(CudaDevice& device, std::int64_t piece_bytes);
  /// Waits for what was sent.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  std::int64_t piece_bytes() const { return pieces_[0].bytes(); }
  /// The piece to write next; returns once its last copy is over.
  std::span<std::byte> next_piece();
  /// Queues the copy of the first `bytes` of that piece, in stream order.
  void send(void* to, std::int64_t bytes);

 private:
  CudaDevice& device_;
  std::array<Buffer, 2> pieces_;
  std::array<cuda::Event, 2> copied_;
  int next_ = 0;
};

}  // namespace monograph
