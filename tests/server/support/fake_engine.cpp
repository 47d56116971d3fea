#include "tests/server/support/fake_engine.h"

#include "base/json.h"

namespace monograph::test {
namespace {

constexpr std::chrono::seconds kPatience{5};

}  // namespace

class FakeStream final : public ResponseStream::Impl {
 public:
  explicit FakeStream(std::shared_ptr<FakeChannel> channel) : channel_(std::move(channel)) {}
  ~FakeStream() override {
    const std::lock_guard lock(channel_->mutex_);
    channel_->notify_ = {};
    channel_->is_closed_ = true;
    if (channel_->n_unfinished_ > 0) channel_->is_cancelled_ = true;
    channel_->changed_.notify_all();
  }

  std::optional<TextEvent> next() override { return poll(); }
  std::optional<TextEvent> poll() override {
    const std::lock_guard lock(channel_->mutex_);
    if (channel_->events_.empty()) return std::nullopt;
    TextEvent event = std::move(channel_->events_.front());
    channel_->events_.pop_front();
    if (event.token.finish) --channel_->n_unfinished_;
    return event;
  }
  bool finished() const override {
    const std::lock_guard lock(channel_->mutex_);
    return channel_->n_unfinished_ == 0 && channel_->events_.empty();
  }
  void set_notifier(std::function<void()> notify) override {
    const std::lock_guard lock(channel_->mutex_);
    channel_->notify_ = std::move(notify);
    if (channel_->notify_ && !channel_->events_.empty()) channel_->notify_();
  }
  void cancel() override {
    const std::lock_guard lock(channel_->mutex_);
    channel_->is_cancelled_ = true;
    channel_->changed_.notify_all();
  }
  const std::string& id() const override { return channel_->request.id; }
  std::span<const TokenId> prompt_ids() const override { return channel_->prompt_ids; }
  std::uint64_t seed() const override { return channel_->request.sampling.seed.value_or(7); }

 private:
  std::shared_ptr<FakeChannel> channel_;
};

FakeChannel::FakeChannel(Request r, std::vector<TokenId> ids)
    : request(std::move(r)), prompt_ids(std::move(ids)), n_unfinished_(request.n) {}

void FakeChannel::push(TextEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  if (notify_) notify_();
}

bool FakeChannel::wait_cancelled() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return is_cancelled_; });
}

bool FakeChannel::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

bool FakeChannel::was_closed_whole() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return is_closed_; });
  return is_closed_ && !is_cancelled_;
}

TextEvent token(int index, TokenId id, const std::string& text) {
  TextEvent event;
  event.token.index = index;
  event.token.token = id;
  event.token.prefill = {PrefillStatus::kReplayed, 1, 1, 0};
  event.text = text;
  return event;
}

TextEvent end(TextEvent event, FinishReason reason) {
  event.token.finish = reason;
  return event;
}

TextEvent with_status(TextEvent event, PrefillStatus status, int n_steps, int n_replays, int n_reused) {
  event.token.prefill = {status, n_steps, n_replays, n_reused};
  return event;
}

std::function<void(FakeChannel&)> answer(std::string text, FinishReason reason) {
  return [text, reason](FakeChannel& channel) {
    for (int index = 0; index < channel.request.n; ++index) {
      std::string character;
      for (std::size_t i = 0; i < text.size(); ++i) {
        character += text[i];
        const bool is_whole = is_valid_utf8(character);
        TextEvent event = token(index, static_cast<unsigned char>(text[i]), is_whole ? character : "");
        if (is_whole) character.clear();
        if (channel.request.sampling.logprobs >= 0) {
          event.token.logprob = -0.5f;
          event.token.top_logprobs = {{static_cast<unsigned char>(text[i]), -0.5f}, {'z', -1.5f}, {'y', -2.5f}};
        }
        if (i + 1 == text.size()) event.token.finish = reason;
        channel.push(std::move(event));
      }
    }
  };
}

FakeEngine::FakeEngine() {
  info_.name = "fake";
  info_.summary = "a fake model";
  info_.vocab_size = 300;
  info_.max_seq_len = 64;
  info_.has_tokenizer = true;
  info_.has_chat_template = true;
  info_.sampling_defaults = "{}";
}

ResponseStream FakeEngine::submit(Request request) {
  if (on_submit) on_submit(request);
  std::vector<TokenId> ids = request.prompt_ids;
  if (request.prompt) ids = tokenize(*request.prompt, true, false);
  if (request.chat) ids = tokenize_chat(*request.chat);
  if (static_cast<int>(ids.size()) >= info_.max_seq_len)
    throw PromptTooLong(
        "the prompt has " + std::to_string(ids.size()) + " tokens, the context " + std::to_string(info_.max_seq_len),
        request.chat ? "messages" : "prompt", static_cast<int>(ids.size()), info_.max_seq_len);
  auto channel = std::make_shared<FakeChannel>(std::move(request), std::move(ids));
  {
    const std::lock_guard lock(mutex_);
    channels_.push_back(channel);
    submitted_.notify_all();
  }
  if (script) script(*channel);
  return ResponseStream(std::make_unique<FakeStream>(channel));
}

std::shared_ptr<FakeChannel> FakeEngine::channel(std::size_t i) {
  std::unique_lock lock(mutex_);
  const bool is_there = submitted_.wait_for(lock, kPatience, [&] { return channels_.size() > i; });
  if (!is_there) throw Error(ErrorCode::kInternal, "no request " + std::to_string(i) + " arrived");
  return channels_[i];
}

std::size_t FakeEngine::n_submitted() {
  const std::lock_guard lock(mutex_);
  return channels_.size();
}

std::vector<TokenId> FakeEngine::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  constexpr std::string_view kSpecial = "<|im_start|>";
  std::vector<TokenId> ids;
  if (add_special) ids.push_back(kBos);
  for (std::size_t i = 0; i < text.size();) {
    if (parse_special && text.substr(i, kSpecial.size()) == kSpecial) {
      ids.push_back(kImStart);
      i += kSpecial.size();
    } else {
      ids.push_back(static_cast<unsigned char>(text[i++]));
    }
  }
  return ids;
}

std::vector<TokenId> FakeEngine::tokenize_chat(const std::string& chat) const {
  std::vector<TokenId> ids = tokenize(render_chat(chat), false, false);
  ids.insert(ids.begin(), kImStart);
  return ids;
}

std::string FakeEngine::detokenize(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids)
    if (id < 256) out += static_cast<char>(id);
  return out;
}

std::string FakeEngine::token_text(TokenId id) const {
  if (id < 256) return std::string(1, static_cast<char>(id));
  return "<" + std::to_string(id) + ">";
}

std::string FakeEngine::render_chat(const std::string& chat) const {
  const Json variables = parse_json(chat, "chat");
  std::string out;
  for (const Json& message : variables["messages"])
    out +=
        message["role"].get<std::string>() + ":" +
        (message.contains("content") && message["content"].is_string() ? message["content"].get<std::string>() : "") +
        ";";
  if (variables["add_generation_prompt"] == true) out += "A:";
  return out;
}

}  // namespace monograph::test
