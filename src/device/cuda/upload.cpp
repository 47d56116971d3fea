#include "device/cuda/upload.h"

#include "base/check.h"

namespace monograph {

Upload::Upload(CudaDevice& device, std::int64_t piece_bytes) : device_(device) {
  for (Buffer& piece : pieces_) piece = device_.allocate_host(piece_bytes);
  for (cuda::Event& event : copied_) event = cuda::make_event(cudaEventDisableTiming);
}

Upload::~Upload() {
  for (const cuda::Event& event : copied_)
    if (event) static_cast<void>(cudaEventSynchronize(event.get()));
}

std::span<std::byte> Upload::next_piece() {
  CUDA_CHECK(cudaEventSynchronize(copied_[next_].get()));
  return {pieces_[next_].as<std::byte>(), static_cast<std::size_t>(piece_bytes())};
}

void Upload::send(void* to, std::int64_t bytes) {
  CHECK(bytes <= piece_bytes());
  device_.copy_to_device(to, pieces_[next_].data(), bytes);
  CUDA_CHECK(cudaEventRecord(copied_[next_].get(), device_.stream()));
  next_ = 1 - next_;
}

}  // namespace monograph
