// Owners of CUDA objects, and the one way a CUDA call is checked.
#pragma once
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <type_traits>

#include "monograph/error.h"

namespace monograph::cuda {

inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  const auto code = status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  throw Error(code,
              std::string(call) + ": " + cudaGetErrorString(status) + " (" + file + ":" + std::to_string(line) + ")");
}

#define CUDA_CHECK(call) ::monograph::cuda::check((call), #call, __FILE__, __LINE__)

template <auto Destroy>
struct Destroyer {
  // A destructor never throws; a handle that cannot be destroyed belongs to a context that is already lost.
  void operator()(auto* object) const noexcept { static_cast<void>(Destroy(object)); }
};
template <typename Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;

inline Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

}  // namespace monograph::cuda
