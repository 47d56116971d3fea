// An engine whose tokens are scripted: one token per byte, answers as the test says, every stream observable.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "monograph/engine.h"

namespace monograph::test {

/// One request's channel: the test pushes, the server's ResponseStream takes.
class FakeChannel {
 public:
  explicit FakeChannel(Request request, std::vector<TokenId> prompt_ids);

  void push(TextEvent event);
  /// Waits until the server dropped or cancelled the stream; false after five seconds.
  bool wait_cancelled();
  bool is_cancelled();
  /// The server destroyed a stream that had ended: no cancel was needed (AP20).
  bool was_closed_whole();

  const Request request;
  const std::vector<TokenId> prompt_ids;

 private:
  friend class FakeStream;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TextEvent> events_;
  std::function<void()> notify_;
  int n_unfinished_;
  bool is_cancelled_ = false;
  bool is_closed_ = false;
};

/// Events are easy to write: token(0, 'a') is "a" of sequence 0; end() finishes it.
TextEvent token(int index, TokenId id, const std::string& text);
TextEvent end(TextEvent event, FinishReason reason);
TextEvent with_status(TextEvent event, PrefillStatus status, int n_steps = 1, int n_replays = 1, int n_reused = 0);

class FakeEngine final : public Engine {
 public:
  static constexpr TokenId kBos = 256, kEos = 257, kImStart = 258;

  FakeEngine();
  ResponseStream submit(Request request) override;
  const ModelInfo& info() const override { return info_; }
  std::vector<TokenId> tokenize(std::string_view text, bool add_special, bool parse_special) const override;
  std::vector<TokenId> tokenize_chat(const std::string& chat) const override;
  std::string detokenize(std::span<const TokenId> ids) const override;
  std::string token_text(TokenId id) const override;
  std::string render_chat(const std::string& chat) const override;
  SamplingParams default_sampling() const override { return {}; }
  std::string metrics() const override { return "# TYPE fake_engine gauge\nfake_engine 1\n"; }
  double seconds_since_heartbeat() const override { return heartbeat_age; }
  void stop(std::chrono::milliseconds) override {}

  /// Answers a request at once, from within submit(); unset: the test pushes events itself.
  std::function<void(FakeChannel&)> script;
  /// Called first in submit(): may throw.
  std::function<void(const Request&)> on_submit;
  std::atomic<double> heartbeat_age{0};

  /// The i-th request ever submitted; waits for it.
  std::shared_ptr<FakeChannel> channel(std::size_t i);
  std::size_t n_submitted();

  ModelInfo info_;

 private:
  std::mutex mutex_;
  std::condition_variable submitted_;
  std::vector<std::shared_ptr<FakeChannel>> channels_;
};

/// A script that answers `text` in every sequence, a token per byte, whole characters only as text; ends with `reason`.
std::function<void(FakeChannel&)> answer(std::string text, FinishReason reason = FinishReason::kStop);

}  // namespace monograph::test
