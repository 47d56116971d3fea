// Stored weights → float, one value at a time: the reference for every packed kernel.
#pragma once
#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace monograph {

/// Expands whole blocks: `bytes` holds out.size() values of `dtype`, and out.size() is a multiple of
/// block_weights(dtype). Arithmetic is float32 with each product and sum rounded on its own, in the order
/// (d * scale) * q - (dmin * min), so the result equals gguf-py's bit for bit. Not for kI32.
void dequantise(DType dtype, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace monograph
