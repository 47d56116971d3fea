// Ranges that every dimension of a model must lie in, so that products of any two fit into 64 bits with room.
#pragma once
#include <cfloat>

namespace monograph::limits {
inline constexpr int kMaxDim = 1 << 20;  ///< model_dim, ffn_dim.
inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxHeads = 4096;
inline constexpr int kMaxHeadDim = 1024;
inline constexpr int kMaxVocab = 1 << 24;
inline constexpr int kMaxPosition = 1 << 30;
inline constexpr double kMinEps = 1e-12, kMaxEps = 1.0;
inline constexpr double kMinTheta = 1.0, kMaxTheta = 1e15;
inline constexpr double kMinFactor = 1e-3, kMaxFactor = 1e6;
}  // namespace monograph::limits
