// The caller's end of a request: token events become text, stop strings are found, on the caller's thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/channel.h"
#include "monograph/engine.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace monograph {

class Response : public ResponseStream::Impl {
 public:
  /// `tokenizer` may be null: events then carry no text.
  Response(std::string id, std::vector<TokenId> prompt_ids, std::uint64_t seed, const SamplingParams& sampling, int n,
           std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<Channel> channel,
           std::shared_ptr<RequestState> request);
  ~Response() override;

  std::optional<TextEvent> next() override;
  std::optional<TextEvent> poll() override;
  bool finished() const override { return n_open_ == 0; }
  void set_notifier(std::function<void()> notify) override { channel_->set_notifier(std::move(notify)); }
  void cancel() override;
  const std::string& id() const override { return id_; }
  std::span<const TokenId> prompt_ids() const override { return prompt_ids_; }
  std::uint64_t seed() const override { return seed_; }

 private:
  struct Output {
    std::optional<Detokenizer> detokenizer;
    StopMatcher stops;
    bool open = true;
  };
  std::optional<TextEvent> take(TokenEvent event);
  void add_text(TextEvent& event, Output& output);
  void signal(std::size_t index, CancelCause cause);

  std::string id_;
  std::vector<TokenId> prompt_ids_;
  std::uint64_t seed_;
  std::vector<std::string> stop_strings_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<RequestState> request_;
  std::vector<Output> outputs_;
  int n_open_;
};

}  // namespace monograph
