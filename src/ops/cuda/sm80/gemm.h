// The product for GPUs without wgmma, bulk copies or clusters, for any number of rows: the bits of gemm.cuh's kernels.
#pragma once
#include "ops/cuda/gemm_epilogues.cuh"
#include "ops/cuda/launch_stream.h"

namespace monograph::cuda::sm80 {

void gemm(LaunchStream stream, const GemmInputs& in, const AddResidual& epilogue);
void gemm(LaunchStream stream, const GemmInputs& in, const GatedSilu& epilogue);
void gemm(LaunchStream stream, const GemmInputs& in, const StoreFloat& epilogue);

}  // namespace monograph::cuda::sm80
