#include "engine/text_parts.h"

#include <algorithm>

#include "base/json.h"
#include "engine/request_check.h"
#include "monograph/error.h"
#include "text/tokenizer_gguf.h"

namespace monograph {
namespace {

std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerFiles& files) {
  if (!files.tokenizer_json.empty())
    return std::make_shared<const Tokenizer>(
        Tokenizer::spec_from_json(files.tokenizer_json, files.tokenizer_config_json));
  if (files.gguf_tokens.empty()) return nullptr;
  return std::make_shared<const Tokenizer>(
      spec_from_gguf(files.gguf, files.gguf_tokens, files.gguf_scores, files.gguf_token_types, files.gguf_merges));
}

std::shared_ptr<const ChatPrompt> load_chat(const std::string& given, const std::string& own,
                                            const Tokenizer* tokenizer, const Log& log) {
  if (!tokenizer || (given.empty() && own.empty())) return nullptr;
  if (!given.empty()) return std::make_shared<const ChatPrompt>(given, *tokenizer);
  try {
    return std::make_shared<const ChatPrompt>(own, *tokenizer);
  } catch (const Error& e) {
    log.warning(std::string("the model's chat template cannot be used: ") + e.what());
    return nullptr;
  }
}

std::vector<TokenId> end_tokens(const ModelFiles& files, const Tokenizer* tokenizer, const Log& log) {
  std::vector<TokenId> ids = files.config().eos_token_ids;
  const auto& generation = files.generation().eos_token_ids;
  ids.insert(ids.end(), generation.begin(), generation.end());
  if (tokenizer) {
    const TokenizerSpec& spec = tokenizer->spec();
    ids.insert(ids.end(), spec.eog.begin(), spec.eog.end());
    if (spec.eos) ids.push_back(*spec.eos);
    if (spec.eot) ids.push_back(*spec.eot);
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [&](TokenId id) { return id < 0 || id >= files.config().vocab_size; });
  if (constexpr std::size_t kMost = kMaxBannedIds - kMaxStopIds; ids.size() > kMost) {
    log.warning("the model names " + std::to_string(ids.size()) + " end tokens, only the first " +
                std::to_string(kMost) + " are used");
    ids.resize(kMost);
  }
  return ids;
}

/// What the model's authors recommend, as far as it is in range; `do_sample: false` means greedy.
void apply_defaults(TextParts& to, const GenerationDefaults& from, const RequestLimits& limits, const Log& log) {
  Json changed = Json::object();
  const auto apply = [&](const char* name, auto field, const auto& value) {
    if (!value) return;
    SamplingParams tried = to.defaults;
    tried.*field = *value;
    try {
      check_sampling(tried, limits);
    } catch (const Error& e) {
      log.warning(std::string("generation_config is not followed: ") + e.what());
      return;
    }
    if (tried.*field != to.defaults.*field) changed[name] = *value;
    to.defaults = tried;
  };
  apply("temperature", &SamplingParams::temperature, from.temperature);
  apply("top_p", &SamplingParams::top_p, from.top_p);
  apply("top_k", &SamplingParams::top_k, from.top_k);
  apply("min_p", &SamplingParams::min_p, from.min_p);
  apply("repetition_penalty", &SamplingParams::repetition_penalty, from.repetition_penalty);
  if (from.do_sample && !*from.do_sample) apply("temperature", &SamplingParams::temperature, std::optional(0.0f));
  if (changed.empty()) return;
  to.defaults_json = changed.dump();
  log.info("sampling defaults of the model: " + to.defaults_json);
}

}  // namespace

TextParts load_text_parts(const ModelFiles& files, const std::string& chat_template, const Log& log) {
  TextParts parts;
  parts.tokenizer = load_tokenizer(files.tokenizer());
  parts.chat = load_chat(chat_template, files.tokenizer().chat_template, parts.tokenizer.get(), log);
  parts.end_of_generation = end_tokens(files, parts.tokenizer.get(), log);
  apply_defaults(parts, files.generation(), {.vocab_size = files.config().vocab_size}, log);
  return parts;
}

}  // namespace monograph
