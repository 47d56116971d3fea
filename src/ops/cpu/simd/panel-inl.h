// Weights out of packed panels, a vector of lanes at a time. A run is 16 consecutive k that share scales and bit
// positions. Products of a half-precision scale and a small integer are exact in float32, so `fma(d, q, m)` rounds as
// the separate operations of ops/cpu/panel_reference.cpp do.
#if defined(MONOGRAPH_SIMD_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MONOGRAPH_SIMD_PANEL_INL_H_
#undef MONOGRAPH_SIMD_PANEL_INL_H_
#else
#define MONOGRAPH_SIMD_PANEL_INL_H_
#endif

#include "ops/cpu/panel_formats.h"
#include "ops/cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace monograph::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr int kRun = 16;
using Byte = std::uint8_t;

/// kN unsigned bytes, widened.
HWY_INLINE hn::Vec<U> LoadBytes(const Byte* p) {
  const hn::Rebind<std::uint8_t, F> d8;
  return hn::PromoteTo(U(), hn::LoadU(d8, p));
}
HWY_INLINE V LoadSigned(const Byte* p) {
  const hn::Rebind<std::int8_t, F> d8;
  return hn::ConvertTo(F(), hn::PromoteTo(I(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(p))));
}
HWY_INLINE V ToFloat(hn::Vec<U> u) { return hn::ConvertTo(F(), hn::BitCast(I(), u)); }

template <bool kHigh>
HWY_INLINE hn::Vec<U> Nibble(const Byte* p) {
  const auto byte = LoadBytes(p);
  if constexpr (kHigh) return hn::ShiftRight<4>(byte);
  return hn::And(byte, hn::Set(U(), 15));
}

/// Each format: kBlockRuns runs per K block of kBytes; high(run): whether the run lies in high nibbles (a compile-time
/// parameter of Run, so that the inner loop has no shift by a variable). Run(block, run, lane) prepares 16 weights of
/// the kN lanes from `lane` on, get(j) is one of them.
struct FormatF32 {
  static constexpr int kBlockRuns = 1, kBytes = kRun * kLanes * 4;
  static constexpr bool kWholeRuns = false;
  static bool high(int) { return false; }
  template <bool>
  struct Run {
    const Byte* p;
    HWY_INLINE Run(const Byte* block, int, int lane) : p(block + lane * 4) {}
    HWY_INLINE V get(int j) const { return Load(reinterpret_cast<const float*>(p + j * kLanes * 4)); }
  };
};

struct FormatF16 {
  static constexpr int kBlockRuns = 1, kBytes = kRun * kLanes * 2;
  static constexpr bool kWholeRuns = false;
  static bool high(int) { return false; }
  template <bool>
  struct Run {
    const Byte* p;
    HWY_INLINE Run(const Byte* block, int, int lane) : p(block + lane * 2) {}
    HWY_INLINE V get(int j) const { return LoadF16(p + j * kLanes * 2); }
  };
};

struct FormatBF16 {
  static constexpr int kBlockRuns = 1, kBytes = kRun * kLanes * 2;
  static constexpr bool kWholeRuns = false;
  static bool high(int) { return false; }
  template <bool>
  struct Run {
    const Byte* p;
    HWY_INLINE Run(const Byte* block, int, int lane) : p(block + lane * 2) {}
    HWY_INLINE V get(int j) const { return LoadBf16(p + j * kLanes * 2); }
  };
};

struct FormatQ8_0 {
  static constexpr int kBlockRuns = 2, kBytes = 34 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int) { return false; }
  template <bool>
  struct Run {
    V d;
    const Byte* q;
    HWY_INLINE Run(const Byte* block, int run, int lane)
        : d(LoadF16(block + lane * 2)), q(block + Q8Panel::kQ + run * kRun * kLanes + lane) {}
    HWY_INLINE V get(int j) const { return hn::Mul(d, LoadSigned(q + j * kLanes)); }
  };
};

struct FormatQ4_0 {
  static constexpr int kBlockRuns = 2, kBytes = 18 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;  // m = -8 d, exact
    const Byte* q;
    HWY_INLINE Run(const Byte* block, int, int lane)
        : d(LoadF16(block + lane * 2)), m(hn::Mul(d, Set(-8.0f))), q(block + Q4_0Panel::kQ + lane) {}
    HWY_INLINE V get(int j) const { return hn::MulAdd(d, ToFloat(Nibble<kHigh>(q + j * kLanes)), m); }
  };
};

struct FormatQ4_1 {
  static constexpr int kBlockRuns = 2, kBytes = 20 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    const Byte* q;
    HWY_INLINE Run(const Byte* block, int, int lane)
        : d(LoadF16(block + lane * 2)), m(LoadF16(block + Q4_1Panel::kM + lane * 2)), q(block + Q4_1Panel::kQ + lane) {}
    HWY_INLINE V get(int j) const { return hn::MulAdd(d, ToFloat(Nibble<kHigh>(q + j * kLanes)), m); }
  };
};

/// Nibbles with a fifth bit from a word per lane.
template <bool kHigh>
struct FiveBits {
  const Byte* q;
  hn::Vec<U> fifth;  // shifted so that bit j is weight j of this run
  HWY_INLINE FiveBits(const Byte* q_at, const Byte* high_at, int lane)
      : q(q_at + lane), fifth(hn::LoadU(U(), reinterpret_cast<const std::uint32_t*>(high_at + lane * 4))) {
    if constexpr (kHigh) fifth = hn::ShiftRight<16>(fifth);
  }
  HWY_INLINE V get(int j) const {
    const auto bit = hn::And(hn::ShiftRightSame(fifth, j), hn::Set(U(), 1));
    return ToFloat(hn::Or(Nibble<kHigh>(q + j * kLanes), hn::ShiftLeft<4>(bit)));
  }
};

struct FormatQ5_0 {
  static constexpr int kBlockRuns = 2, kBytes = 22 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    FiveBits<kHigh> q;
    HWY_INLINE Run(const Byte* block, int, int lane)
        : d(LoadF16(block + lane * 2)),
          m(hn::Mul(d, Set(-16.0f))),
          q(block + Q5_0Panel::kQ, block + Q5_0Panel::kHigh, lane) {}
    HWY_INLINE V get(int j) const { return hn::MulAdd(d, q.get(j), m); }
  };
};

struct FormatQ5_1 {
  static constexpr int kBlockRuns = 2, kBytes = 24 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    FiveBits<kHigh> q;
    HWY_INLINE Run(const Byte* block, int, int lane)
        : d(LoadF16(block + lane * 2)),
          m(LoadF16(block + Q5_1Panel::kM + lane * 2)),
          q(block + Q5_1Panel::kQ, block + Q5_1Panel::kHigh, lane) {}
    HWY_INLINE V get(int j) const { return hn::MulAdd(d, q.get(j), m); }
  };
};

/// Scale and negated min of sub-block `sub` of Q4_K and Q5_K.
HWY_INLINE V KScale(const Byte* block, int sub, int lane) {
  return hn::Mul(LoadF16(block + KPanel::kD + lane * 2),
                 ToFloat(LoadBytes(block + KPanel::kScales + sub * kLanes + lane)));
}
HWY_INLINE V KMin(const Byte* block, int sub, int lane) {
  return hn::Neg(hn::Mul(LoadF16(block + KPanel::kDMin + lane * 2),
                         ToFloat(LoadBytes(block + KPanel::kMins + sub * kLanes + lane))));
}

struct FormatQ4_K {
  static constexpr int kBlockRuns = 16, kBytes = Q4KPanel::kBytes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run / 2 % 2 == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    const Byte* q;
    HWY_INLINE Run(const Byte* block, int run, int lane)
        : d(KScale(block, run / 2, lane)),
          m(KMin(block, run / 2, lane)),
          q(block + Q4KPanel::kQ + (run / 4 * 32 + run % 2 * kRun) * kLanes + lane) {}
    HWY_INLINE V get(int j) const { return hn::MulAdd(d, ToFloat(Nibble<kHigh>(q + j * kLanes)), m); }
  };
};

struct FormatQ5_K {
  static constexpr int kBlockRuns = 16, kBytes = Q5KPanel::kBytes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run / 2 % 2 == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    const Byte *q, *fifth;
    int shift;
    HWY_INLINE Run(const Byte* block, int run, int lane)
        : d(KScale(block, run / 2, lane)),
          m(KMin(block, run / 2, lane)),
          q(block + Q5KPanel::kQ + (run / 4 * 32 + run % 2 * kRun) * kLanes + lane),
          fifth(block + Q5KPanel::kHigh + run % 2 * kRun * kLanes + lane),
          shift(run / 2) {}
    HWY_INLINE V get(int j) const {
      const auto bit = hn::And(hn::ShiftRightSame(LoadBytes(fifth + j * kLanes), shift), hn::Set(U(), 1));
      return hn::MulAdd(d, ToFloat(hn::Or(Nibble<kHigh>(q + j * kLanes), hn::ShiftLeft<4>(bit))), m);
    }
  };
};

struct FormatQ6_K {
  static constexpr int kBlockRuns = 16, kBytes = 210 * kLanes;
  static constexpr bool kWholeRuns = true;
  static bool high(int run) { return run / 4 % 2 == 1; }
  template <bool kHigh>
  struct Run {
    V d, m;
    const Byte *low, *upper;
    int shift;
    HWY_INLINE Run(const Byte* block, int run, int lane)
        : d(hn::Mul(LoadF16(block + Q6KPanel::kD + lane * 2),
                    LoadSigned(block + Q6KPanel::kScales + run * kLanes + lane))),
          m(hn::Mul(d, Set(-32.0f))),
          low(block + Q6KPanel::kLow + (run / 8 * 64 + run % 4 * kRun) * kLanes + lane),
          upper(block + Q6KPanel::kHigh + (run / 8 * 32 + run % 2 * kRun) * kLanes + lane),
          shift(run / 2 % 4 * 2) {}
    HWY_INLINE V get(int j) const {
      const auto bits = hn::And(hn::ShiftRightSame(LoadBytes(upper + j * kLanes), shift), hn::Set(U(), 3));
      return hn::MulAdd(d, ToFloat(hn::Or(Nibble<kHigh>(low + j * kLanes), hn::ShiftLeft<4>(bits))), m);
    }
  };
};

/// Calls work with the panel's format as a value.
template <typename Work>
HWY_INLINE void WithFormat(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kF32:
      return work(FormatF32());
    case DType::kF16:
      return work(FormatF16());
    case DType::kBF16:
      return work(FormatBF16());
    case DType::kQ8_0:
      return work(FormatQ8_0());
    case DType::kQ4_0:
      return work(FormatQ4_0());
    case DType::kQ4_1:
      return work(FormatQ4_1());
    case DType::kQ5_0:
      return work(FormatQ5_0());
    case DType::kQ5_1:
      return work(FormatQ5_1());
    case DType::kQ4_K:
      return work(FormatQ4_K());
    case DType::kQ5_K:
      return work(FormatQ5_K());
    case DType::kQ6_K:
      return work(FormatQ6_K());
    case DType::kI32:
      return;  // never packed
  }
}

#endif
}  // namespace monograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
