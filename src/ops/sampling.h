// The exact sampling rule, in pieces that host and device share; docs in one place, so that every backend draws the
// same token.
//
// For a row with logits z[0..n_vocab):
//  0. A NaN or +infinity among them ends the row: token kTokenBadLogits.
//  1. z[id] += value for every bias entry, in order; z[id] = -infinity for every banned id. Ids outside are ignored.
//  2. Penalties, over the sequence's history (prompt and output; presence and frequency: output only): penalised().
//  3. temperature 0: the highest z, ties to the lowest id. Else p = e^((z - max) / temperature), and the weight of an
//  id
//     is the integer q = floor(p * 2^40): integer sums do not depend on their order, so no thread count or block shape
//     shows in a result.
//  4. top_k: the first k ids in rank order (z descending, then id ascending).
//  5. top_p: of those the shortest prefix in rank order whose weights reach top_p of the top_k survivors' total.
//  6. min_p: of those the ids with p >= min_p.
//  7. r = 64 random bits of (seed, kv length of the row after this step); target = floor(r * total / 2^64) over what is
//     kept; the token is the first id, in id order, whose running sum exceeds the target.
// Log probabilities are the model's own, before 1.: z - max - log(sum of q / 2^40), temperature 1.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/math.h"
#include "base/portable.h"
#include "base/random.h"
#include "ops/inputs.h"

namespace monograph::sampling {

inline constexpr std::int32_t kTokenNone = -1;       ///< The row samples nothing.
inline constexpr std::int32_t kTokenBadLogits = -2;  ///< Its logits hold a NaN or +infinity.

/// Whether a logit ends its row (rule 0).
MONOGRAPH_HOST_DEVICE bool is_bad(float z) { return !(z <= 3.402823466e+38f); }

/// Rule 2 for one id that occurs in the history; `n_output` counts its occurrences in the output.
MONOGRAPH_HOST_DEVICE float penalised(float z, std::int32_t n_output, const SlotSampling& s) {
  z = z > 0.0f ? z / s.repetition_penalty : z * s.repetition_penalty;
  if (n_output > 0) z = (z - s.presence_penalty) - s.frequency_penalty * static_cast<float>(n_output);
  return z;
}

MONOGRAPH_HOST_DEVICE bool has_penalties(const SlotSampling& s) {
  return s.repetition_penalty != 1.0f || s.presence_penalty != 0.0f || s.frequency_penalty != 0.0f;
}

/// e^((z - max) / temperature), exactly 1 for the maximum, whatever the temperature and even if it is infinite. (SA01)
MONOGRAPH_HOST_DEVICE float probability(float z, float max, float temperature) {
  return z == max ? 1.0f : exp_f32((z - max) / temperature);
}

MONOGRAPH_HOST_DEVICE std::uint64_t weight(float p) { return static_cast<std::uint64_t>(p * 0x1p40f); }

/// A key that orders ids by rank: a greater key comes first. z descending, then id ascending; -0 ranks as 0.
MONOGRAPH_HOST_DEVICE std::uint64_t rank_key(float z, std::int32_t id) {
  std::uint32_t u = bits_of(z + 0.0f);
  u = (u & 0x80000000u) ? ~u : (u | 0x80000000u);
  return (static_cast<std::uint64_t>(u) << 32) | (0xffffffffu - static_cast<std::uint32_t>(id));
}
/// Above every key of a logit that is none of rule 0's: the key of a row that ends by it.
inline constexpr std::uint64_t kBadKey = ~0ull;
MONOGRAPH_HOST_DEVICE std::int32_t id_of_key(std::uint64_t key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(key));
}

/// Rule 5's least sum: floor(top_p * total), at least 1; top_p counts in units of 2^-32.
MONOGRAPH_HOST_DEVICE std::uint64_t top_p_target(float top_p, std::uint64_t total) {
  if (top_p >= 1.0f) return total;
  const std::uint64_t fraction = static_cast<std::uint64_t>(top_p * 0x1p32f);
  const std::uint64_t target = (total >> 32) * fraction + (((total & 0xffffffffu) * fraction) >> 32);
  return target > 0 ? target : 1;
}

/// Rule 7's target among `total` kept weight.
MONOGRAPH_HOST_DEVICE std::uint64_t draw(std::uint64_t seed, std::int32_t position, std::uint64_t total) {
  return multiply_high(random_bits(seed, static_cast<std::uint64_t>(position)), total);
}

/// The log probability of raw logit z; `total` is the sum of weight(probability(z_i, max, 1)).
MONOGRAPH_HOST_DEVICE float log_probability(float z, float max, std::uint64_t total) {
  return (z - max) - log_f32(static_cast<float>(total) * 0x1p-40f);
}

}  // namespace monograph::sampling
