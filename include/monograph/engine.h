// The library: text or token ids in, a stream of tokens out. Hides everything below.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "monograph/config.h"
#include "monograph/error.h"
#include "monograph/request.h"

namespace monograph {

/// The output of one request. Owned by the caller; destroying it cancels what still runs. One thread at a time.
class ResponseStream {
 public:
  /// What stands behind a stream: the engine's channel, or a script in a test. Destroying it cancels.
  struct Impl {
    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    virtual ~Impl() = default;
    virtual std::optional<TextEvent> next() = 0;
    virtual std::optional<TextEvent> poll() = 0;
    virtual bool finished() const = 0;
    virtual void set_notifier(std::function<void()> notify) = 0;
    virtual void cancel() = 0;
    virtual const std::string& id() const = 0;
    virtual std::span<const TokenId> prompt_ids() const = 0;
    virtual std::uint64_t seed() const = 0;
  };
  explicit ResponseStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

  /// The next event of any of the n sequences; waits for it. nullopt once every sequence has finished.
  std::optional<TextEvent> next() { return impl_->next(); }
  /// Like next(), but returns nullopt at once if nothing is there; see finished().
  std::optional<TextEvent> poll() { return impl_->poll(); }
  /// True once every sequence's last event has been taken.
  bool finished() const { return impl_->finished(); }
  /// Called from the engine thread (briefly, must not block) whenever an event arrives; for event loops. Called at once
  /// if events are waiting already. After set_notifier({}) returns, the old one is not running and never runs again.
  void set_notifier(std::function<void()> notify) { impl_->set_notifier(std::move(notify)); }
  void cancel() { impl_->cancel(); }

  const std::string& id() const { return impl_->id(); }
  std::span<const TokenId> prompt_ids() const { return impl_->prompt_ids(); }  ///< What the prompt became.
  std::uint64_t seed() const { return impl_->seed(); }                         ///< The seed in use, given or picked.

 private:
  std::unique_ptr<Impl> impl_;
};

/// What a loaded model offers, for /v1/models and the CLI.
struct ModelInfo {
  std::string name;
  std::string summary;
  int vocab_size = 0;
  int max_seq_len = 0;
  bool has_tokenizer = false;
  bool has_chat_template = false;
  std::string sampling_defaults;  ///< JSON object of what generation_config changed; "{}" if nothing.
};

class Engine {
 public:
  /// Loads the model, plans memory, captures graphs, starts the engine thread. `log` gets progress and the memory
  /// budget; `cancelled` (may be empty) is polled while loading and ends it with Error(kCancelled).
  static std::unique_ptr<Engine> load(const EngineConfig& config,
                                      std::function<void(int level, std::string_view)> log = {},
                                      const std::function<bool()>& cancelled = {});
  virtual ~Engine() = default;

  /// Checks, tokenizes on the caller's thread, queues. Throws Error: kInvalidArgument (names the field), kTryLater when
  /// the queue is full, kUnavailable when stopping; PromptTooLong for a prompt of max_seq_len tokens or more. A
  /// max_tokens beyond the context is cut to what fits: the output then ends with kLength.
  virtual ResponseStream submit(Request request) = 0;

  virtual const ModelInfo& info() const = 0;
  /// --spin-us as it was resolved, for callers that wait in an event loop of their own.
  virtual std::chrono::microseconds spin() const { return std::chrono::microseconds(0); }
  virtual std::vector<TokenId> tokenize(std::string_view text, bool add_special, bool parse_special) const = 0;
  /// The ids that a request with this `chat` gets: control tokens only where the template put them.
  virtual std::vector<TokenId> tokenize_chat(const std::string& chat) const = 0;
  virtual std::string detokenize(std::span<const TokenId> ids) const = 0;
  virtual std::string token_text(TokenId id) const = 0;  ///< Raw bytes of one token, specials included.
  /// The chat template's text for `chat` (JSON as in Request::chat).
  virtual std::string render_chat(const std::string& chat) const = 0;
  /// SamplingParams with the model's generation_config applied: what a request starts from.
  virtual SamplingParams default_sampling() const = 0;

  /// Prometheus text of every engine metric.
  virtual std::string metrics() const = 0;
  /// Seconds since the engine thread last finished a pass or went idle; for /health.
  virtual double seconds_since_heartbeat() const = 0;

  /// Refuses new work, finishes what runs until `deadline`, then cancels the rest; idempotent.
  virtual void stop(std::chrono::milliseconds deadline) = 0;
};

}  // namespace monograph
