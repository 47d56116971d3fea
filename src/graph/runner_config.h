// What a runner is told at start-up, and what it tells of its graphs afterwards.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/cache_groups.h"
#include "graph/eligibility.h"
#include "graph/policy.h"
#include "graph/role.h"
#include "monograph/config.h"

namespace monograph {

/// Which rows the last layer computes once K and V are stored; no bit depends on it.
enum class LastLayer {
  kFaster,   ///< Ops::pays_to_take_rows() decides, by the shape.
  kAll,      ///< Every token's.
  kSampled,  ///< Those that are sampled, in every shape that has room for them.
};

struct RunnerConfig {
  bool enable_graphs = true;  ///< The master.
  bool enable_prefill_graphs = true;
  std::vector<int> prefill_buckets;  ///< Sorted ladder; empty is treated as "no graphs".
  std::vector<int> decode_buckets;   ///< Sorted, ends with max_seqs.
  int max_rows = 64;                 ///< Bmax of the extend family.
  int max_seqs = 256;                ///< Bmax of the decode family; rows of history.
  int max_seq_len = 2048;
  int max_eager_tokens = 0;  ///< Largest step served eager; at least the largest bucket is always possible.
  int sampled_vocab = 0;     ///< Ids below this may be chosen (the tokenizer's size); 0: all of the head.
  int block_size = 64;
  bool skip_padding = true;
  LastLayer last_layer = LastLayer::kFaster;
  bool time_steps = false;  ///< Fill StepResult::device_us, at the price of two more stream calls a step; for `bench`.
  bool strict = false;      ///< A start-up degradation is an error (D6).
  GraphPolicy policy = GraphPolicy::kAlways;
  /// Times to go by instead of measuring, for buckets of the ladder; empty: measured at start where they are needed.
  std::map<int, BucketTimes> known_times;
  bool measure_buckets = false;  ///< Also without the measured policy, to show them.
  Topology topology;
  InstanceKind instance = InstanceKind::kTarget;
  /// Polled before each graph is captured or timed; true ends the start with Error(kCancelled). May be empty.
  std::function<bool()> cancelled;
  std::vector<CacheGroup> groups{CacheGroup{}};  ///< The cache's; KvLayer::group counts in this list.

  int table_width() const { return (max_seq_len + block_size - 1) / block_size; }  ///< W, blocks of one sequence.
};

/// One captured graph; known once start-up is over.
struct CaptureRecord {
  std::string family;
  int bucket;
  double us;
  std::int64_t bytes;
  int nodes;
};

}  // namespace monograph
