#include "answer.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

namespace monograph::app {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Wakes the reader of a stream, from the engine's thread or the signals'.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    ready_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  bool rung_ = false;
};

/// Takes the bell off stream and signals before it goes away.
class Hung {
 public:
  Hung(Bell& bell, ResponseStream& stream, StopSignals& signals) : stream_(stream), signals_(signals) {
    stream_.set_notifier([&bell] { bell.ring(); });
    signals_.on_stop([&bell](int) { bell.ring(); });
  }
  ~Hung() {
    stream_.set_notifier({});
    signals_.on_stop({});
  }

 private:
  ResponseStream& stream_;
  StopSignals& signals_;
};

void take(Answer& answer, const TextEvent& event, Clock::time_point start) {
  if (event.token.token) {
    if (answer.n_output_tokens++ == 0)
      answer.ttft_us = us_since(start);
    else
      answer.decode_us = us_since(start) - answer.ttft_us;
  }
  answer.text += event.text;
  answer.prefill = event.token.prefill;
  if (event.token.finish) answer.finish = *event.token.finish;
  if (!event.token.error.empty()) answer.error = event.token.error;
}

}  // namespace

std::string Answer::summary() const {
  char numbers[256];
  std::snprintf(numbers, sizeof numbers,
                "%d prompt tokens, %d cached, TTFT %.1f ms, %d tokens at %.1f tokens/s, seed %llu, ", n_prompt_tokens,
                prefill.n_reused_tokens, ttft_us / 1000, n_output_tokens, tokens_per_s(),
                static_cast<unsigned long long>(seed));
  return numbers + std::string("prefill_cuda_graph_status=").append(to_string(prefill.status));
}

Answer run_request(Engine& engine, Request request, StopSignals& signals,
                   const std::function<bool(std::string_view)>& show) {
  const auto start = Clock::now();
  ResponseStream stream = engine.submit(std::move(request));
  Answer answer;
  answer.n_prompt_tokens = static_cast<int>(stream.prompt_ids().size());
  answer.seed = stream.seed();
  Bell bell;
  const Hung hung(bell, stream, signals);
  bool cancelled = false;
  while (!stream.finished()) {
    if (signals.stopping() && !std::exchange(cancelled, true)) stream.cancel();
    const auto event = stream.poll();
    if (!event) {
      if (!stream.finished()) bell.wait();
      continue;
    }
    take(answer, *event, start);
    if (!event->text.empty() && !cancelled && !show(event->text)) {
      cancelled = true;
      stream.cancel();
    }
  }
  return answer;
}

}  // namespace monograph::app
