// The K and V blocks of one layer, as ops see them.
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace monograph {

/// K and V lie as [block][kv head][row][dim]; block 0 is the null block and is never read or written.
struct KvLayer {
  void* k = nullptr;
  void* v = nullptr;
  DType dtype = DType::kF32;  ///< F32 or BF16
  int n_blocks = 0;           ///< Block 0 included.
  int block_size = 64;
  int n_kv_heads = 0;
  int head_dim = 0;
  int group = 0;  ///< Which block table of the step (private index of a cache group tag).
};

}  // namespace monograph
