#include "graph/ladder.h"

#include <algorithm>

#include "base/check.h"
#include "monograph/error.h"

namespace monograph {

std::vector<int> default_ladder(int chunk_size, int max_seq_len) {
  const int last = std::min({chunk_size, max_seq_len, kMaxBucket});
  CHECK(last >= 1);
  std::vector<int> ladder;
  const auto add = [&](int bucket) {
    if (bucket < last) ladder.push_back(bucket);
  };
  for (int bucket = 16; bucket <= 128; bucket *= 2) add(bucket);
  for (int octave = 128; octave < last; octave *= 2)
    for (int quarter = 5; quarter <= 8; ++quarter) add(octave / 4 * quarter);
  ladder.push_back(last);
  return ladder;
}

std::vector<int> default_decode_ladder(int max_seqs) {
  CHECK(max_seqs >= 1);
  std::vector<int> ladder;
  for (int bucket : {1, 2, 4, 8, 16, 24, 32})
    if (bucket < max_seqs) ladder.push_back(bucket);
  for (int bucket = 48; bucket < max_seqs; bucket += 16) ladder.push_back(bucket);
  ladder.push_back(max_seqs);
  return ladder;
}

std::vector<int> check_ladder(std::span<const int> buckets, int limit, const std::string& knob) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, "invalid_capture_buckets: " + knob + ": " + what, knob);
  };
  if (buckets.empty()) refuse("the list is empty, expected 1 to " + std::to_string(kMaxBuckets) + " buckets");
  for (int bucket : buckets)
    if (bucket < 1 || bucket > std::min(limit, kMaxBucket))
      refuse("bucket " + std::to_string(bucket) + " is outside 1.." + std::to_string(std::min(limit, kMaxBucket)));
  std::vector<int> ladder(buckets.begin(), buckets.end());
  std::sort(ladder.begin(), ladder.end());
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  if (ladder.size() > kMaxBuckets)
    refuse(std::to_string(ladder.size()) + " buckets, at most " + std::to_string(kMaxBuckets) + " are allowed");
  return ladder;
}

std::optional<int> pick_bucket(std::span<const int> ladder, int n) {
  const auto found = std::lower_bound(ladder.begin(), ladder.end(), n);
  if (found == ladder.end()) return std::nullopt;
  return *found;
}

}  // namespace monograph
