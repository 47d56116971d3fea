// How many ranks there are and what they split. One process is one rank; today every size is 1.
#pragma once

namespace monograph {

/// Parallel sizes and options of a deployment (SPEC S-16).
struct Topology {
  int world_size = 1;
  int tensor_parallel = 1, data_parallel = 1, expert_parallel = 1, pipeline_parallel = 1;
  int ffn_tensor_parallel = 1, ffn_sequence_parallel = 1;
  int sequence_parallel = 1, context_parallel = 1;
  bool ffn_disaggregation = false;
};

}  // namespace monograph
