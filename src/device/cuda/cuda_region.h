// Addresses first, memory later: a range whose front is backed step by step, so that graphs can be captured over it
// before its size is known.
#pragma once
#include <memory>

#include "device/cuda/handles.h"
#include "device/device.h"

namespace monograph::cuda {

/// Reserves the addresses; `stream` zeroes what is committed, in its order.
std::unique_ptr<Region> reserve_region(std::int64_t bytes, cudaStream_t stream);

}  // namespace monograph::cuda
