// The two queues between callers and the engine thread: requests down, events up. Values are moved once, never shared.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/sequence.h"

namespace monograph {

/// Events of one request, engine → caller.
class Channel {
 public:
  /// `spin`: how long pop() stays awake before it sleeps. Of all callers at most one does so at a time.
  explicit Channel(std::chrono::microseconds spin = {}) : spin_(spin) {}

  void push(TokenEvent event);
  /// Waits for an event. The engine ends every sequence with one, so this returns.
  TokenEvent pop();
  std::optional<TokenEvent> try_pop();
  /// As ResponseStream::set_notifier. `notify` runs on the engine thread, and must not call set_notifier.
  void set_notifier(std::function<void()> notify);

 private:
  TokenEvent take_first();  // under mutex_; there is one

  const std::chrono::microseconds spin_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<TokenEvent> events_;
  std::atomic<bool> has_events_ = false;  // what events_ says, to look at without the lock
  std::mutex notifier_mutex_;             // held while a notifier runs; never taken inside mutex_
  std::function<void()> notify_;
};

/// Requests, callers → engine. Bounded by the sequences that were never admitted, wherever they wait.
class Inbox {
 public:
  /// `spin`: how long take() stays awake before it sleeps.
  explicit Inbox(int capacity, std::chrono::microseconds spin = {}) : capacity_(capacity), spin_(spin) {}

  /// All sequences of one request, or none: Error(kTryLater) when they do not fit, kUnavailable after close().
  void push(std::vector<std::unique_ptr<Sequence>> sequences);
  /// What has arrived. With `wait` it blocks until something has, or the inbox is closed.
  std::vector<std::unique_ptr<Sequence>> take(bool wait);
  /// n sequences left the line: admitted, or ended before that.
  void leave(int n);
  /// Nothing comes in from now on; `why` is what push() says. Only the first reason counts.
  void close(std::string why);
  bool closed() const;
  int n_waiting() const;
  /// When the oldest request came that the engine has not taken yet.
  std::optional<TimePoint> oldest() const;

 private:
  const int capacity_;
  const std::chrono::microseconds spin_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Sequence>> arrived_;
  int n_waiting_ = 0;
  bool closed_ = false;
  std::atomic<bool> has_news_ = false;  // something has arrived, or the inbox is closed; to look at without the lock
  std::string why_closed_;
};

}  // namespace monograph
