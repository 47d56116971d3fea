// Draws that a seed repeats on every platform, which the distributions of the standard library do not promise.
#pragma once
#include <cstdint>
#include <random>

namespace monograph::testing {

using Random = std::mt19937_64;
inline int below(Random& random, int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }
inline bool one_in(Random& random, int n) { return below(random, n) == 0; }

}  // namespace monograph::testing
