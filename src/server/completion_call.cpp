#include "server/completion_call.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "server/chat_messages.h"
#include "server/field_values.h"

namespace monograph::server {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kMaxSaltBytes = 1024;
constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 4096;
constexpr double kMaxTemperature = 2;  // OpenAI's; the library itself allows more.
constexpr double kMaxBias = 100;
constexpr int kMaxInt = std::numeric_limits<int>::max();

/// A call while its fields are read.
struct Draft {
  explicit Draft(const Engine& e) : engine(e), info(e.info()), sampling(e.default_sampling()) {}
  const Engine& engine;
  const ModelInfo& info;
  SamplingParams sampling;
  CompletionCall call;
  std::vector<Request> prompts;
  ChatInput chat;
  bool has_input = false;
  std::string request_id;
  std::string cache_salt;
  bool wants_logprobs = false;  // Chat's two fields; see finish_logprobs().
  int top_logprobs = -1;
  std::optional<int> max_tokens;
  std::optional<int> max_completion_tokens;
  int best_of = 1;
  bool has_stream_options = false;
  std::optional<bool> add_special;
  bool parse_special = false;
};

using Set = void (*)(Draft&, const Json&, const std::string& field);
using Neutral = bool (*)(const Json&);

enum Where : unsigned { kCompletions = 1, kChat = 2, kBoth = 3 };

/// Either read by `set`, or known and not honoured: then only values that ask for nothing are let through.
struct Field {
  Where where;
  Set set = nullptr;
  Neutral neutral = nullptr;
};

// --- Prompts ---

Request text_prompt(const Json& value, const std::string& field) {
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty()) refuse_field(field, "must not be empty");
  Request request;
  request.prompt = text;
  return request;
}

Request ids_prompt(const Json& value, const std::string& field, int vocab_size) {
  if (value.empty()) refuse_field(field, "must hold at least one token");
  Request request;
  request.prompt_ids = to_tokens(value, field, vocab_size);
  return request;
}

Request one_prompt(const Json& value, const std::string& field, int vocab_size) {
  if (value.is_string()) return text_prompt(value, field);
  if (value.is_array()) return ids_prompt(value, field, vocab_size);
  refuse_value(field, "a string or a list of token ids", value);
}

void set_prompt(Draft& draft, const Json& value, const std::string& field) {
  draft.has_input = true;
  const bool is_one = value.is_string() || (value.is_array() && (value.empty() || value.front().is_number()));
  if (is_one) {
    draft.prompts.push_back(one_prompt(value, field, draft.info.vocab_size));
    return;
  }
  if (!value.is_array()) refuse_value(field, "a string, a list of token ids, or a list of either", value);
  if (value.size() > kMaxPrompts) refuse_field(field, "must hold at most " + std::to_string(kMaxPrompts) + " prompts");
  for (std::size_t i = 0; i < value.size(); ++i)
    draft.prompts.push_back(one_prompt(value[i], element(field, i), draft.info.vocab_size));
}

void set_messages(Draft& draft, const Json& value, const std::string&) {
  draft.has_input = true;
  draft.chat.messages = read_messages(value);
}

// --- Sampling ---

template <float SamplingParams::*Member>
void set_number(Draft& draft, const Json& value, const std::string& field, Range range) {
  draft.sampling.*Member = static_cast<float>(to_number(value, field, range));
}

void set_stop(Draft& draft, const Json& value, const std::string& field) {
  draft.sampling.stop.clear();
  const auto add = [&](const Json& one, const std::string& name) {
    std::string text = to_text(one, name, kMaxStopBytes);
    if (text.empty()) refuse_field(name, "must not be empty");
    draft.sampling.stop.push_back(std::move(text));
  };
  if (value.is_string()) return add(value, field);
  if (!value.is_array()) refuse_value(field, "a string or a list of strings", value);
  if (value.size() > kMaxStops) refuse_field(field, "must hold at most " + std::to_string(kMaxStops) + " strings");
  for (std::size_t i = 0; i < value.size(); ++i) add(value[i], element(field, i));
}

void set_stop_token_ids(Draft& draft, const Json& value, const std::string& field) {
  if (value.is_array() && value.size() > kMaxBannedIds)
    refuse_field(field, "must hold at most " + std::to_string(kMaxBannedIds) + " token ids");
  draft.sampling.stop_token_ids = to_tokens(value, field, draft.info.vocab_size);
}

TokenId token_of_key(const std::string& key, const std::string& field, int vocab_size) {
  const bool is_digits = !key.empty() && key.size() <= 9 &&
                         std::all_of(key.begin(), key.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
  const int id = is_digits ? std::stoi(key) : -1;
  if (id < 0 || id >= vocab_size)
    refuse_field(field,
                 "must have token ids from 0 to " + std::to_string(vocab_size - 1) + " as keys, not " + shown(key));
  return id;
}

void set_logit_bias(Draft& draft, const Json& value, const std::string& field) {
  if (!value.is_object()) refuse_value(field, "an object of token ids and numbers", value);
  if (value.size() > kMaxLogitBias)
    refuse_field(field, "must hold at most " + std::to_string(kMaxLogitBias) + " entries");
  draft.sampling.logit_bias.clear();
  for (const auto& [key, bias] : value.items()) {
    const TokenId id = token_of_key(key, field, draft.info.vocab_size);
    const double number = to_number(bias, field + "." + key, {-kMaxBias, kMaxBias});
    draft.sampling.logit_bias.emplace_back(id, static_cast<float>(number));
  }
}

void set_stream_options(Draft& draft, const Json& value, const std::string& field) {
  if (!value.is_object()) refuse_value(field, "an object", value);
  draft.has_stream_options = true;
  for (const auto& [key, option] : value.items()) {
    const std::string name = field + "." + key;
    if (option.is_null()) continue;
    if (key == "include_usage")
      draft.call.include_usage = to_bool(option, name);
    else if (key == "continuous_usage_stats")
      draft.call.continuous_usage = to_bool(option, name);
    else if (key == "include_obfuscation" && !to_bool(option, name))
      continue;
    else
      draft.call.ignored_fields.push_back(name);
  }
}

void set_model(Draft& draft, const Json& value, const std::string& field) {
  const std::string name = to_text(value, field, 4096);
  if (name == draft.info.name) return;
  throw Error(ErrorCode::kNotFound,
              "the model " + shown(name) + " is not served here; this server has " + shown(draft.info.name), field);
}

// --- Values that ask for nothing, for fields that are not honoured ---

bool is_anything(const Json&) { return true; }
bool is_nothing(const Json&) { return false; }
bool is_false(const Json& value) { return value == false; }
bool is_true(const Json& value) { return value == true; }
bool is_zero(const Json& value) { return value == 0; }
bool is_one(const Json& value) { return value == 1; }
bool is_empty(const Json& value) { return (value.is_array() || value.is_object()) ? value.empty() : value == ""; }
bool is_none_or_auto(const Json& value) { return value == "none" || value == "auto"; }
bool is_default_tier(const Json& value) { return value == "default" || value == "auto"; }
bool is_text_format(const Json& value) {
  return value.is_object() && value.contains("type") && value["type"] == "text";
}
bool is_text_only(const Json& value) { return value.is_array() && value.size() == 1 && value[0] == "text"; }

// NOLINTNEXTLINE(readability-function-size): one row per field.
const std::unordered_map<std::string_view, Field>& fields() {
  using D = Draft&;
  using J = const Json&;
  using F = const std::string&;
  using S = SamplingParams;
  static const std::unordered_map<std::string_view, Field> table = {
      {"model", {kBoth, set_model}},
      {"prompt", {kCompletions, set_prompt}},
      {"messages", {kChat, set_messages}},
      {"n", {kBoth, [](D d, J v, F f) { d.call.n = static_cast<int>(to_integer(v, f, 1, kMaxChoicesPerPrompt)); }}},
      {"best_of",
       {kCompletions, [](D d, J v, F f) { d.best_of = static_cast<int>(to_integer(v, f, 1, kMaxChoicesPerPrompt)); }}},
      {"stream", {kBoth, [](D d, J v, F f) { d.call.stream = to_bool(v, f); }}},
      {"stream_options", {kBoth, set_stream_options}},
      {"max_tokens", {kBoth, [](D d, J v, F f) { d.max_tokens = static_cast<int>(to_integer(v, f, 1, kMaxInt)); }}},
      {"max_completion_tokens",
       {kChat, [](D d, J v, F f) { d.max_completion_tokens = static_cast<int>(to_integer(v, f, 1, kMaxInt)); }}},
      {"min_tokens",
       {kBoth, [](D d, J v, F f) { d.sampling.min_tokens = static_cast<int>(to_integer(v, f, 0, kMaxInt)); }}},
      {"temperature",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::temperature>(d, v, f, {0, kMaxTemperature});
        }}},
      {"top_p",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::top_p>(d, v, f, {0, 1, true});
        }}},
      {"top_k", {kBoth, [](D d, J v, F f) { d.sampling.top_k = static_cast<int>(to_integer(v, f, -1, kMaxInt)); }}},
      {"min_p",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::min_p>(d, v, f, {0, 1});
        }}},
      {"repetition_penalty",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::repetition_penalty>(d, v, f, {0, 10, true});
        }}},
      {"presence_penalty",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::presence_penalty>(d, v, f, {-2, 2});
        }}},
      {"frequency_penalty",
       {kBoth,
        [](D d, J v, F f) {
          set_number<&S::frequency_penalty>(d, v, f, {-2, 2});
        }}},
      {"seed", {kBoth, [](D d, J v, F f) { d.sampling.seed = to_seed(v, f); }}},
      {"stop", {kBoth, set_stop}},
      {"stop_token_ids", {kBoth, set_stop_token_ids}},
      {"logit_bias", {kBoth, set_logit_bias}},
      {"ignore_eos", {kBoth, [](D d, J v, F f) { d.sampling.ignore_eos = to_bool(v, f); }}},
      {"skip_special_tokens", {kBoth, [](D d, J v, F f) { d.sampling.skip_special_tokens = to_bool(v, f); }}},
      {"include_stop_str_in_output",
       {kBoth, [](D d, J v, F f) { d.sampling.include_stop_str_in_output = to_bool(v, f); }}},
      {"cache_salt", {kBoth, [](D d, J v, F f) { d.cache_salt = to_text(v, f, kMaxSaltBytes); }}},
      {"request_id", {kBoth, [](D d, J v, F f) { d.request_id = to_text(v, f, kMaxIdBytes); }}},
      {"aux_info", {kBoth, [](D d, J v, F f) { d.call.aux_info = to_bool(v, f); }}},
      {"return_token_ids", {kBoth, [](D d, J v, F f) { d.call.return_token_ids = to_bool(v, f); }}},
      {"return_tokens_as_token_ids", {kBoth, [](D d, J v, F f) { d.call.tokens_as_ids = to_bool(v, f); }}},
      {"top_logprobs",
       {kChat, [](D d, J v, F f) { d.top_logprobs = static_cast<int>(to_integer(v, f, 0, kMaxLogprobs)); }}},
      {"logprobs",
       {kBoth,
        [](D d, J v, F f) {
          if (d.call.is_chat())
            d.wants_logprobs = to_bool(v, f);
          else
            d.call.logprobs = static_cast<int>(to_integer(v, f, 0, kMaxLogprobs));
        }}},
      {"add_special_tokens", {kCompletions, [](D d, J v, F f) { d.add_special = to_bool(v, f); }}},
      {"parse_special", {kCompletions, [](D d, J v, F f) { d.parse_special = to_bool(v, f); }}},
      {"add_generation_prompt", {kChat, [](D d, J v, F f) { d.chat.add_generation_prompt = to_bool(v, f); }}},
      {"chat_template_kwargs", {kChat, [](D d, J v, F f) { d.chat.template_kwargs = read_template_kwargs(v, f); }}},

      // Information about the request, which changes no answer.
      {"user", {kBoth, nullptr, is_anything}},
      {"metadata", {kBoth, nullptr, is_anything}},
      {"safety_identifier", {kBoth, nullptr, is_anything}},
      {"prompt_cache_key", {kBoth, nullptr, is_anything}},
      {"parallel_tool_calls", {kBoth, nullptr, is_anything}},
      {"spaces_between_special_tokens", {kBoth, nullptr, is_true}},
      {"detokenize", {kBoth, nullptr, is_true}},

      // Known and not honoured (yet).
      {"tools", {kBoth, nullptr, is_empty}},
      {"tool_choice", {kBoth, nullptr, is_none_or_auto}},
      {"functions", {kBoth, nullptr, is_empty}},
      {"function_call", {kBoth, nullptr, is_none_or_auto}},
      {"response_format", {kBoth, nullptr, is_text_format}},
      {"echo", {kBoth, nullptr, is_false}},
      {"suffix", {kBoth, nullptr, is_empty}},
      {"prompt_logprobs", {kBoth, nullptr, is_nothing}},
      {"prompt_embeds", {kBoth, nullptr, is_nothing}},
      {"use_beam_search", {kBoth, nullptr, is_false}},
      {"length_penalty", {kBoth, nullptr, is_one}},
      {"early_stopping", {kBoth, nullptr, is_false}},
      {"allowed_token_ids", {kBoth, nullptr, is_nothing}},
      {"bad_words", {kBoth, nullptr, is_empty}},
      {"logprob_token_ids", {kBoth, nullptr, is_empty}},
      {"logits_processors", {kBoth, nullptr, is_empty}},
      {"truncate_prompt_tokens", {kBoth, nullptr, is_nothing}},
      {"truncation_side", {kBoth, nullptr, is_nothing}},
      {"continue_final_message", {kBoth, nullptr, is_false}},
      {"chat_template", {kBoth, nullptr, is_nothing}},
      {"documents", {kBoth, nullptr, is_empty}},
      {"priority", {kBoth, nullptr, is_zero}},
      {"stream_interval", {kBoth, nullptr, is_one}},
      {"structured_outputs", {kBoth, nullptr, is_nothing}},
      {"guided_json", {kBoth, nullptr, is_nothing}},
      {"guided_regex", {kBoth, nullptr, is_nothing}},
      {"guided_choice", {kBoth, nullptr, is_nothing}},
      {"guided_grammar", {kBoth, nullptr, is_nothing}},
      {"guided_decoding_backend", {kBoth, nullptr, is_nothing}},
      {"guided_whitespace_pattern", {kBoth, nullptr, is_nothing}},
      {"grammar", {kBoth, nullptr, is_empty}},
      {"json_schema", {kBoth, nullptr, is_nothing}},
      {"regex", {kBoth, nullptr, is_nothing}},
      {"ebnf", {kBoth, nullptr, is_nothing}},
      {"kv_transfer_params", {kBoth, nullptr, is_nothing}},
      {"modalities", {kBoth, nullptr, is_text_only}},
      {"audio", {kBoth, nullptr, is_nothing}},
      {"prediction", {kBoth, nullptr, is_nothing}},
      {"web_search_options", {kBoth, nullptr, is_nothing}},
      {"reasoning_effort", {kBoth, nullptr, is_nothing}},
      {"verbosity", {kBoth, nullptr, is_nothing}},
      {"service_tier", {kBoth, nullptr, is_default_tier}},
      {"store", {kBoth, nullptr, is_false}},
      {"lora_name", {kBoth, nullptr, is_nothing}},
  };
  return table;
}

void read_field(Draft& draft, const std::string& name, const Json& value) {
  const auto found = fields().find(name);
  const Where here = draft.call.is_chat() ? kChat : kCompletions;
  if (found == fields().end() || (found->second.where & here) == 0) {
    draft.call.ignored_fields.push_back(name);
    return;
  }
  if (value.is_null()) return;
  const Field& field = found->second;
  if (field.set) return field.set(draft, value, name);
  if (field.neutral(value)) return;
  refuse_field(name, "is not supported by this server; it would be ignored, so it is refused: " + shown(value));
}

// --- Rules over several fields ---

void finish_logprobs(Draft& draft) {
  if (draft.call.is_chat()) {
    if (draft.top_logprobs >= 0 && !draft.wants_logprobs) refuse_field("top_logprobs", "needs `logprobs` to be true");
    if (draft.wants_logprobs) draft.call.logprobs = std::max(draft.top_logprobs, 0);
  }
  draft.sampling.logprobs = draft.call.logprobs;
}

void finish_lengths(Draft& draft) {
  const auto given = draft.max_completion_tokens ? draft.max_completion_tokens : draft.max_tokens;
  // A chat answer ends where the context does if nobody says otherwise; the engine cuts to what fits.
  if (given)
    draft.sampling.max_tokens = *given;
  else if (draft.call.is_chat())
    draft.sampling.max_tokens = draft.info.max_seq_len;
  if (draft.sampling.min_tokens > draft.sampling.max_tokens)
    refuse_field("min_tokens", "must be at most the number of tokens asked for, " +
                                   std::to_string(draft.sampling.max_tokens) + ", not " +
                                   std::to_string(draft.sampling.min_tokens));
}

void finish_counts(Draft& draft) {
  if (draft.best_of != 1 && draft.best_of != draft.call.n)
    refuse_field("best_of", "is not supported by this server unless it equals `n`");
  if (draft.has_stream_options && !draft.call.stream) refuse_field("stream_options", "needs `stream` to be true");
  const std::size_t n_choices = draft.prompts.size() * static_cast<std::size_t>(draft.call.n);
  if (n_choices > kMaxChoices)
    refuse_field("n", "times the number of prompts must be at most " + std::to_string(kMaxChoices));
}

void finish_chat(Draft& draft) {
  if (!draft.info.has_chat_template)
    refuse_field("messages", "cannot be used: the model has no chat template; use /v1/completions");
  Request request;
  request.chat = chat_text(draft.chat);
  draft.prompts.push_back(std::move(request));
}

// The engine's own rule for text is: the vocabulary's BOS, and control tokens in the text stay text.
void finish_text(Draft& draft) {
  if (!draft.parse_special && draft.add_special.value_or(true)) return;
  for (Request& request : draft.prompts) {
    if (!request.prompt) continue;
    request.prompt_ids = draft.engine.tokenize(*request.prompt, draft.add_special.value_or(true), draft.parse_special);
    request.prompt.reset();
    if (request.prompt_ids.empty()) refuse_field("prompt", "must hold at least one token");
  }
}

void finish(Draft& draft) {
  if (!draft.has_input) refuse_field(draft.call.is_chat() ? "messages" : "prompt", "is missing");
  finish_logprobs(draft);
  finish_lengths(draft);
  if (draft.call.is_chat())
    finish_chat(draft);
  else
    finish_text(draft);
  finish_counts(draft);
  for (Request& request : draft.prompts) {
    request.id = draft.request_id;
    request.sampling = draft.sampling;
    request.n = draft.call.n;
    request.cache_salt = draft.cache_salt;
  }
  draft.call.stop_token_ids = draft.sampling.stop_token_ids;
  draft.call.requests = std::move(draft.prompts);
}

Json parse_body(std::string_view body) {
  Json json = parse_json(body, "the request body");
  if (!json.is_object())
    throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object, not " + shown(json));
  return json;
}

}  // namespace

CompletionCall read_completion_call(std::string_view body, Api api, const Engine& engine) {
  const Json json = parse_body(body);
  Draft draft(engine);
  draft.call.api = api;
  draft.call.return_token_ids = draft.call.is_plain();
  draft.call.model = draft.info.name;
  for (const auto& [name, value] : json.items()) read_field(draft, name, value);
  finish(draft);
  return std::move(draft.call);
}

}  // namespace monograph::server
