// One request run to its end, its text passed on as it comes.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "monograph/engine.h"
#include "stop_signals.h"

namespace monograph::app {

struct Answer {
  std::string text;
  int n_prompt_tokens = 0, n_output_tokens = 0;
  double ttft_us = 0;    ///< From submit() to the first token; 0 if there was none.
  double decode_us = 0;  ///< From the first token to the last.
  PrefillInfo prefill;
  FinishReason finish = FinishReason::kStop;
  std::string error;
  std::uint64_t seed = 0;

  double tokens_per_s() const { return decode_us > 0 ? (n_output_tokens - 1) * 1e6 / decode_us : 0; }
  /// "43 prompt tokens, 0 cached, TTFT 182.4 ms, 120 tokens at 84.1 tokens/s, seed 7,
  /// prefill_cuda_graph_status=replayed"
  std::string summary() const;
};

/// `show` gets each piece of text; when it returns false (nobody reads any more) or on a stop signal the request is
/// cancelled.
Answer run_request(Engine& engine, Request request, StopSignals& signals,
                   const std::function<bool(std::string_view)>& show);

}  // namespace monograph::app
