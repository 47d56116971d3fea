// The sorted buckets: default rule, checks, choice. Pure host code. (SPEC D10, S-04..S-15)
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace monograph {

inline constexpr int kMaxBuckets = 64;
inline constexpr int kMaxBucket = 65536;
inline constexpr int kMaxGraphRows = 1024;

/// Powers of two from 16 to 128, then four per octave, ended by min(chunk_size, max_seq_len).
std::vector<int> default_ladder(int chunk_size, int max_seq_len);
/// 1, 2, 4, 8, 16, 24, 32, then steps of 16 up to and ending with max_seqs.
std::vector<int> default_decode_ladder(int max_seqs);

/// Checks a user's list against 1..limit, sorts it, drops duplicates. Throws Error(kInvalidArgument) with `knob`, value
/// and limit in its text ("invalid_capture_buckets: ...").
std::vector<int> check_ladder(std::span<const int> buckets, int limit, const std::string& knob);

/// Smallest bucket >= n, if any.
std::optional<int> pick_bucket(std::span<const int> ladder, int n);

}  // namespace monograph
