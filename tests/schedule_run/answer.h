// What a request got, in a form that shows every bit.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "monograph/engine.h"

namespace monograph::schedule_run {

/// A request that ended in another way than with its last token.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One output sequence.
struct Output {
  /// Per token: its id, the bits of its logprob, then the id and the bits of each top one.
  std::vector<std::vector<std::uint32_t>> tokens;
  std::optional<FinishReason> finish;
  bool operator==(const Output&) const = default;
};

struct Answer {
  std::vector<Output> outputs;
  // How it came about; no part of what must be equal.
  std::vector<PrefillInfo> prefills;
  std::vector<std::vector<std::int64_t>> steps;  ///< Per output, the number of the step that made each token.

  std::uint64_t hash() const;  ///< FNV-1a of ids, bits of logprobs and finish reasons.
};

/// Reads the stream to its end; throws Failure if a sequence ends with an error.
Answer take(ResponseStream& stream, int n);

/// The first place where two answers differ, with both values; empty if they are equal.
std::string first_difference(const Answer& expected, const Answer& found);

}  // namespace monograph::schedule_run
