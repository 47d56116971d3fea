// Byte offsets inside one K block of a panel: what a GGUF block holds, with 16 rows' elements side by side. "[n][16]"
// is n elements of 16 lanes. (Block contents: gguf-py's quants.py)
#pragma once
#include <cstdint>

namespace monograph::cpu {

struct Q8Panel {
  static constexpr int kD = 0;   // f16 [16]
  static constexpr int kQ = 32;  // int8 [32][16]
};
struct Q4_0Panel {
  static constexpr int kD = 0;
  static constexpr int kQ = 32;  // [16][16]: low half is k = j, high half k = j + 16
};
struct Q4_1Panel {
  static constexpr int kD = 0, kM = 32;  // f16 [16] each
  static constexpr int kQ = 64;
};
struct Q5_0Panel {
  static constexpr int kD = 0;
  static constexpr int kHigh = 32;  // uint32 [16]: bit k is the fifth bit of weight k
  static constexpr int kQ = 96;
};
struct Q5_1Panel {
  static constexpr int kD = 0, kM = 32;
  static constexpr int kHigh = 64;
  static constexpr int kQ = 128;
};

/// What Q4_K and Q5_K share: value = (d * scale) q - (dmin * min), a scale and a min per 32 weights.
struct KPanel {
  static constexpr int kD = 0, kDMin = 32;              // f16 [16] each
  static constexpr int kScales = 64, kMins = 64 + 128;  // uint8 [8][16] each
  static constexpr int kAfter = 64 + 256;
};
struct Q4KPanel : KPanel {
  static constexpr int kQ = kAfter;  // [4][32][16]: of each 64 weights the low halves, then the high halves
  static constexpr int kBytes = kQ + 128 * 16;
};
struct Q5KPanel : KPanel {
  static constexpr int kHigh = kAfter;  // [32][16]: bit i is the fifth bit of weight 32 i + j
  static constexpr int kQ = kHigh + 32 * 16;
  static constexpr int kBytes = kQ + 128 * 16;
};
/// value = (d * scale) (q - 32), a scale per 16 weights.
struct Q6KPanel {
  static constexpr int kD = 0;                    // f16 [16]
  static constexpr int kScales = 32;              // int8 [16][16]
  static constexpr int kLow = kScales + 16 * 16;  // [2][64][16]
  static constexpr int kHigh = kLow + 128 * 16;   // [2][32][16]: two bits for each of four weights
};

}  // namespace monograph::cpu
