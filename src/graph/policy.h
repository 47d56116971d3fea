// Graph and eager times per bucket, measured at start-up, and the choice that follows from them (SPEC D3).
#pragma once
#include <map>

namespace monograph {

class MeasuredPolicy {
 public:
  struct Times {
    double graph_us = 0, eager_us = 0;
  };
  /// Times of a full step of `bucket` tokens.
  void set(int bucket, double graph_us, double eager_us) { times_[bucket] = {graph_us, eager_us}; }
  /// Whether eager, with `n_tokens` real tokens, is expected to beat a replay of `bucket`. Eager's time between two
  /// buckets is taken on the line between theirs. Unknown buckets replay.
  bool eager_is_faster(int bucket, int n_tokens) const;
  const std::map<int, Times>& times() const { return times_; }

 private:
  std::map<int, Times> times_;
};

}  // namespace monograph
