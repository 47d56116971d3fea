// Graph and eager times per bucket, measured at start-up, and the choice that follows from them (SPEC D3).
#pragma once
#include <map>

namespace monograph {

/// Of a full step of one bucket.
struct BucketTimes {
  double graph_us = 0, eager_us = 0;
};

class MeasuredPolicy {
 public:
  void set(int bucket, const BucketTimes& times) { times_[bucket] = times; }
  /// Whether eager, with `n_tokens` real tokens, is expected to beat a replay of `bucket`. Eager's time between two
  /// buckets is taken on the line between theirs. Unknown buckets replay.
  bool eager_is_faster(int bucket, int n_tokens) const;
  const std::map<int, BucketTimes>& times() const { return times_; }

 private:
  std::map<int, BucketTimes> times_;
};

}  // namespace monograph
