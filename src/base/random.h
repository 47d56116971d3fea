// Counter-based random numbers: a draw is a pure function of (seed, position), so recomputing a token redraws it.
#pragma once
#include <cstdint>

#include "base/portable.h"

namespace monograph {

struct Philox4x32 {
  std::uint32_t word[4];
};

/// Philox4x32 with 10 rounds. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
MONOGRAPH_HOST_DEVICE Philox4x32 philox(Philox4x32 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// 64 random bits for the token at `position` of a sequence with this seed.
MONOGRAPH_HOST_DEVICE std::uint64_t random_bits(std::uint64_t seed, std::uint64_t position) {
  const Philox4x32 counter = {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0}};
  const Philox4x32 r = philox(counter, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return (static_cast<std::uint64_t>(r.word[1]) << 32) | r.word[0];
}

/// Upper 64 bits of a 128-bit product, from 32-bit pieces so that host and device agree without extensions.
MONOGRAPH_HOST_DEVICE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = static_cast<std::uint32_t>(a), a1 = a >> 32;
  const std::uint64_t b0 = static_cast<std::uint32_t>(b), b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
  const std::uint64_t carry = a0 * b1 + static_cast<std::uint32_t>(middle);
  return a1 * b1 + (middle >> 32) + (carry >> 32);
}

}  // namespace monograph
