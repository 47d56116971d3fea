// Which product kernel serves which number of rows. All are one class of bits, so the choice never shows in a result.
#pragma once
#include "ops/cuda/gemm_narrow.cuh"
#include "ops/cuda/gemm_wide.cuh"

namespace monograph::cuda {

inline constexpr int kMostNarrowRows = kNarrowRows;

/// Whether a product of this many rows normalises its own input (else the caller runs a norm kernel first).
inline bool norms_its_rows(int max_rows, int k) { return can_norm(max_rows, k); }

/// At most kMostNarrowRows rows; with a norm, rows that norms_its_rows.
template <bool kNorm, typename Epilogue>
void gemm_narrow(cudaStream_t stream, const GemmInputs& in, const RowNorm& norm, const Epilogue& epilogue) {
  launch_narrow<1, kNorm>(stream, in, norm, k_segments(in.n, in.k), NarrowTuning{}, epilogue);
}

template <typename Epilogue>
void gemm_wide(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  // The widest tile that still fills most of the chip.
  const auto n_tiles = [&](int bn) { return ((in.max_rows + 127) / 128) * ((in.n + bn - 1) / bn); };
  if (n_tiles(256) >= 256) return launch_wide<256>(stream, in, epilogue);
  if (n_tiles(128) >= 100) return launch_wide<128>(stream, in, epilogue);
  if (n_tiles(64) >= 64) return launch_wide<64>(stream, in, epilogue);
  return launch_wide<32>(stream, in, epilogue);
}

template <typename Epilogue>
void gemm(cudaStream_t stream, const GemmInputs& in, const Epilogue& epilogue) {
  if (in.max_rows <= kMostNarrowRows) return gemm_narrow<false>(stream, in, RowNorm{}, epilogue);
  return gemm_wide(stream, in, epilogue);
}

}  // namespace monograph::cuda
