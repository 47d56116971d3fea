// One output sequence of a request, from the queue to its last token. Only the engine thread touches it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/block_pool.h"
#include "monograph/request.h"
#include "ops/inputs.h"

namespace monograph {

using TimePoint = std::chrono::steady_clock::time_point;

class Channel;

/// The one signal that goes back to the engine: read when a round is planned.
enum class CancelCause : int { kNone, kCaller, kStopString };

/// What the sequences of one request share.
struct RequestState {
  explicit RequestState(int n) : cancelled(static_cast<std::size_t>(n)), live(static_cast<std::size_t>(n), true) {}
  std::vector<std::atomic<CancelCause>> cancelled;  ///< Per sequence; written by the caller, read by the engine.
  /// When the caller let go, after the flags above were set; for the step log.
  std::atomic<TimePoint::rep> let_go{0};

  // The engine thread's:
  std::vector<bool> live;
  bool prefilled = false;  ///< One of them has the prompt's blocks in the prefix cache; the others may follow.
  int leader() const {
    for (std::size_t i = 0; i < live.size(); ++i)
      if (live[i]) return static_cast<int>(i);
    return -1;
  }
};

struct Sequence {
  // Given.
  std::string request_id;
  int index = 0;  ///< Which of the request's n sequences.
  std::shared_ptr<RequestState> request;
  std::shared_ptr<Channel> channel;
  std::vector<TokenId> tokens;  ///< Prompt, then output.
  int prompt_len = 0;
  SlotSampling sampling;  ///< Fixed part; the batch builder adds what changes per step.
  std::vector<BiasEntry> bias;
  std::vector<TokenId> end_ids;  ///< Sorted. They end the sequence, and are forbidden before min_tokens.
  int min_tokens = 0, max_tokens = 1;
  std::vector<std::int32_t> position_ids;  ///< P per prompt token, if the model takes explicit positions.
  std::int32_t last_position = -1;         ///< The largest of them.
  std::string salt;
  std::optional<TimePoint> deadline;
  TimePoint submitted{};

  // State.
  std::int64_t arrival = 0;  ///< Order of arrival; larger is younger.
  bool running = false;
  bool prefilling = true;         ///< Until its first token after (re)admission.
  bool history_is_short = false;  ///< A prefix hit skipped tokens that the device's history row lacks.
  int n_computed = 0;             ///< Tokens whose K and V are in its blocks.
  std::vector<BlockId> blocks;
  PrefixChain chain;  ///< After the first n_published blocks.
  int n_published = 0;
  int history_row = -1;
  PrefillRecord record;
  std::optional<int> n_reused;  ///< Prompt tokens found in the prefix cache at first admission.
  int n_preemptions = 0;
  std::optional<TimePoint> admitted, first_token, last_token;

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_output() const { return n_tokens() - prompt_len; }
  int n_remaining() const { return n_tokens() - n_computed; }
  bool uses_penalties() const {
    return sampling.repetition_penalty != 1.0f || sampling.presence_penalty != 0.0f ||
           sampling.frequency_penalty != 0.0f;
  }
  CancelCause cancel_cause() const {
    return request->cancelled[static_cast<std::size_t>(index)].load(std::memory_order_relaxed);
  }
  /// The one place that tells users how the prefill went (S-104).
  PrefillInfo prefill_info() const {
    return {record.status(), record.n_prefill_steps(), record.n_prefill_replays(), n_reused.value_or(0)};
  }
};

}  // namespace monograph
