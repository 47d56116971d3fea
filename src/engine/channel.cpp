#include "engine/channel.h"

#include "base/check.h"
#include "base/stay_awake.h"
#include "monograph/error.h"

namespace monograph {
namespace {

/// Of many callers that wait, one may stay awake: the others would take the cores that all of them wait for.
class AwakeCaller {
 public:
  AwakeCaller() : is_one_(!taken_.exchange(true)) {}
  ~AwakeCaller() {
    if (is_one_) taken_ = false;
  }
  AwakeCaller(const AwakeCaller&) = delete;
  AwakeCaller& operator=(const AwakeCaller&) = delete;
  bool is_one() const { return is_one_; }

 private:
  static inline std::atomic<bool> taken_ = false;
  const bool is_one_;
};

}  // namespace

void Channel::push(TokenEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    has_events_ = true;
  }
  arrived_.notify_one();
  const std::lock_guard lock(notifier_mutex_);
  if (notify_) notify_();
}

TokenEvent Channel::pop() {
  if (const AwakeCaller caller; caller.is_one()) stay_awake([&] { return has_events_.load(); }, spin_);
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !events_.empty(); });
  return take_first();
}

std::optional<TokenEvent> Channel::try_pop() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  return take_first();
}

TokenEvent Channel::take_first() {
  TokenEvent event = std::move(events_.front());
  events_.pop_front();
  has_events_ = !events_.empty();
  return event;
}

void Channel::set_notifier(std::function<void()> notify) {
  const std::lock_guard lock(notifier_mutex_);
  notify_ = std::move(notify);
  if (!notify_) return;
  bool waiting;
  {
    const std::lock_guard events_lock(mutex_);
    waiting = !events_.empty();
  }
  if (waiting) notify_();
}

void Inbox::push(std::vector<std::unique_ptr<Sequence>> sequences) {
  const int n = static_cast<int>(sequences.size());
  {
    const std::lock_guard lock(mutex_);
    if (closed_) throw Error(ErrorCode::kUnavailable, why_closed_);
    if (n_waiting_ + n > capacity_)
      throw Error(ErrorCode::kTryLater, "the queue is full: " + std::to_string(n_waiting_) + " sequences wait, " +
                                            std::to_string(n) + " more would pass --max-queue " +
                                            std::to_string(capacity_) + "; try again later");
    n_waiting_ += n;
    for (auto& sequence : sequences) arrived_.push_back(std::move(sequence));
    has_news_ = true;
  }
  changed_.notify_one();
}

std::vector<std::unique_ptr<Sequence>> Inbox::take(bool wait) {
  if (wait) stay_awake([&] { return has_news_.load(); }, spin_);
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return !arrived_.empty() || closed_; });
  has_news_ = closed_;
  return std::exchange(arrived_, {});
}

void Inbox::leave(int n) {
  const std::lock_guard lock(mutex_);
  n_waiting_ -= n;
  CHECK(n_waiting_ >= 0);
}

void Inbox::close(std::string why) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) why_closed_ = std::move(why);
    closed_ = true;
    has_news_ = true;
  }
  changed_.notify_all();
}

bool Inbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

int Inbox::n_waiting() const {
  const std::lock_guard lock(mutex_);
  return n_waiting_;
}

std::optional<TimePoint> Inbox::oldest() const {
  const std::lock_guard lock(mutex_);
  if (arrived_.empty()) return std::nullopt;
  return arrived_.front()->submitted;
}

}  // namespace monograph
