// Which SIMD targets are compiled: those with fused multiply-add and a vector length known at compile time. Included
// before any Highway header.
#pragma once

// Without fused multiply-add the bits would differ; such CPUs run the plain loops. AVX3_DL and ZEN4 add nothing to
// float32 arithmetic over AVX3. (The names are Highway's, expanded after its headers define them.)
#define HWY_DISABLED_TARGETS                                                                                    \
  (HWY_SSE2 | HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_PPC8 | \
   HWY_RVV | HWY_WASM | HWY_WASM_EMU256)

#include "hwy/detect_targets.h"
#ifndef HWY_SSE2
#define HWY_SSE2 0  // Highway 1.0.3 has no such target
#endif
