// Tensor maps for the bulk copy engine, encoded on the host by the driver.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "device/cuda/handles.h"
#include "ops/cuda/tensor_map.cuh"

namespace monograph::cuda {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  // Found at run time: the program starts on machines without a driver.
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess || !found)
      throw Error(ErrorCode::kUnsupported, "the driver has no cuTensorMapEncodeTiled; 12.0 or newer is needed");
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return function;
}

CUtensorMap encode(const void* data, int rank, const cuuint64_t* dims, const cuuint64_t* strides,
                   const cuuint32_t* box) {
  CUtensorMap map{};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult status =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(rank), const_cast<void*>(data), dims,
                strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error(ErrorCode::kDevice, "cuTensorMapEncodeTiled: error " + std::to_string(status));
  return map;
}

}  // namespace

CUtensorMap make_tensor_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows) {
  const cuuint64_t dims[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(cols) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  return encode(data, 2, dims, strides, box);
}

CUtensorMap make_query_map(const void* q, int n_tokens, int n_heads, int head_dim, int box_tokens, int box_heads) {
  const auto d = static_cast<cuuint64_t>(head_dim), h = static_cast<cuuint64_t>(n_heads);
  const cuuint64_t dims[3] = {d, h, static_cast<cuuint64_t>(n_tokens)}, strides[2] = {d * 2, h * d * 2};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_heads), static_cast<cuuint32_t>(box_tokens)};
  return encode(q, 3, dims, strides, box);
}

CUtensorMap make_block_map(const void* data, std::int64_t rows, std::int64_t cols, int box_rows, int box_blocks) {
  const cuuint64_t dims[3] = {64, static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(cols / 64)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(cols) * 2, 128};
  const cuuint32_t box[3] = {64, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_blocks)};
  return encode(data, 3, dims, strides, box);
}

}  // namespace monograph::cuda
