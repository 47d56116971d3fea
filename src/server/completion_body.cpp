#include "server/completion_body.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"

namespace monograph::server {
namespace {

// OpenAI's clients know this number as "impossible"; JSON has no infinity.
constexpr float kLeastLogprob = -9999.0f;

std::string logprob_number(float value) {
  if (!(value > kLeastLogprob)) value = kLeastLogprob;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", std::min(value, 0.0f) + 0.0f);
  return text;
}

void append_item(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

std::string ids_json(std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) out += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return out + "]";
}

std::string bytes_json(const std::string& bytes) {
  std::string out = "[";
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out += (i > 0 ? "," : "") + std::to_string(static_cast<unsigned char>(bytes[i]));
  return out + "]";
}

// The legacy shape has no bytes beside a token, so part of a character is spelled out.
std::string spelled_bytes(const std::string& bytes) {
  std::string out = "bytes:";
  for (const unsigned char c : bytes) {
    char text[8];
    std::snprintf(text, sizeof text, "\\x%02x", c);
    out += text;
  }
  return out;
}

std::int64_t count_chars(const std::string& bytes) {
  return std::count_if(bytes.begin(), bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

const char* finish_name(FinishReason reason) { return reason == FinishReason::kLength ? "\"length\"" : "\"stop\""; }

}  // namespace

std::string prefill_members(const PrefillInfo& prefill, bool aux_info) {
  std::string out = "\"prefill_cuda_graph_status\":\"";
  out += to_string(prefill.status);
  out += '"';
  if (!aux_info) return out;
  out += ",\"n_prefill_steps\":" + std::to_string(prefill.n_prefill_steps);
  out += ",\"n_prefill_replays\":" + std::to_string(prefill.n_prefill_replays);
  out += ",\"n_reused_tokens\":" + std::to_string(prefill.n_reused_tokens);
  return out;
}

PrefillInfo fold_prefill(const std::vector<Choice>& choices) {
  PrefillInfo all;
  bool is_first = true;
  for (const Choice& choice : choices) {
    if (!choice.has_begun) continue;
    if (is_first || all.status == PrefillStatus::kReplayed) all.status = choice.prefill.status;
    is_first = false;
    all.n_prefill_steps += choice.prefill.n_prefill_steps;
    all.n_prefill_replays += choice.prefill.n_prefill_replays;
    all.n_reused_tokens += choice.prefill.n_reused_tokens;
  }
  return all;
}

CompletionBody::CompletionBody(const CompletionCall& call, const Engine& engine, std::string id, std::int64_t created)
    : call_(call), engine_(engine), id_(std::move(id)), created_(created) {}

// --- What an event adds ---

void CompletionBody::add(Choice& choice, const TextEvent& event) const {
  const TokenEvent& token = event.token;
  choice.has_begun = true;
  choice.prefill = token.prefill;
  choice.text += event.text;
  // The end token was sampled and is counted, though its text is not shown.
  const auto id = token.token ? token.token : token.stop_token;
  if (id) {
    choice.ids.push_back(*id);
    ++choice.n_tokens;
  }
  if (token.token && !token.stop_token && call_.logprobs >= 0) add_logprobs(choice, token);
  if (!token.finish) return;
  choice.finish = token.finish;
  if (event.matched_stop) {
    choice.stop_reason = json_string(*event.matched_stop);
  } else if (token.stop_token) {
    const auto& asked = call_.stop_token_ids;
    if (std::find(asked.begin(), asked.end(), *token.stop_token) != asked.end())
      choice.stop_reason = std::to_string(*token.stop_token);
  }
}

void CompletionBody::add_logprobs(Choice& choice, const TokenEvent& token) const {
  if (call_.is_chat())
    add_chat_logprobs(choice, token);
  else
    add_completion_logprobs(choice, token);
}

std::string CompletionBody::logprob_name(TokenId id, const std::string& bytes) const {
  if (call_.tokens_as_ids) return json_string("token_id:" + std::to_string(id));
  if (!call_.is_chat() && !is_valid_utf8(bytes)) return json_string(spelled_bytes(bytes));
  return json_string(bytes);
}

void CompletionBody::add_chat_logprobs(Choice& choice, const TokenEvent& token) const {
  const auto entry = [&](TokenId id, float logprob) {
    const std::string bytes = engine_.token_text(id);
    return "{\"token\":" + logprob_name(id, bytes) + ",\"logprob\":" + logprob_number(logprob) +
           ",\"bytes\":" + bytes_json(bytes);
  };
  std::string top;
  for (int i = 0; i < std::min<int>(call_.logprobs, static_cast<int>(token.top_logprobs.size())); ++i) {
    const TokenLogprob& one = token.top_logprobs[static_cast<std::size_t>(i)];
    append_item(top, entry(one.id, one.logprob) + "}");
  }
  const std::string chosen = entry(*token.token, token.logprob.value_or(kLeastLogprob));
  append_item(choice.logprob_entries, chosen + ",\"top_logprobs\":[" + top + "]}");
}

void CompletionBody::add_completion_logprobs(Choice& choice, const TokenEvent& token) const {
  const TokenId id = *token.token;
  const std::string bytes = engine_.token_text(id);
  const float logprob = token.logprob.value_or(kLeastLogprob);
  append_item(choice.logprob_tokens, logprob_name(id, bytes));
  append_item(choice.token_logprobs, logprob_number(logprob));
  append_item(choice.text_offsets, std::to_string(choice.n_chars));
  choice.n_chars += count_chars(bytes);
  // Keys must differ; two ids may share a text. The chosen token is always there, beyond the number asked for.
  std::vector<std::string> names{logprob_name(id, bytes)};
  std::string top = names.front() + ":" + logprob_number(logprob);
  for (int i = 0; i < std::min<int>(call_.logprobs, static_cast<int>(token.top_logprobs.size())); ++i) {
    const TokenLogprob& one = token.top_logprobs[static_cast<std::size_t>(i)];
    const std::string name = logprob_name(one.id, engine_.token_text(one.id));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
    append_item(top, name + ":" + logprob_number(one.logprob));
  }
  append_item(choice.top_logprobs, "{" + top + "}");
}

void CompletionBody::clear_logprobs(Choice& choice) {
  choice.logprob_entries.clear();
  choice.logprob_tokens.clear();
  choice.token_logprobs.clear();
  choice.top_logprobs.clear();
  choice.text_offsets.clear();
}

/// OpenAI's shapes say null where none were asked for.
std::string CompletionBody::logprobs_member(const Choice& choice) const {
  if (call_.logprobs < 0) return call_.is_plain() ? "" : ",\"logprobs\":null";
  if (call_.is_chat()) return ",\"logprobs\":{\"content\":[" + choice.logprob_entries + "],\"refusal\":null}";
  return ",\"logprobs\":{\"tokens\":[" + choice.logprob_tokens + "],\"token_logprobs\":[" + choice.token_logprobs +
         "],\"top_logprobs\":[" + choice.top_logprobs + "],\"text_offset\":[" + choice.text_offsets + "]}";
}

// --- Shared parts ---

std::string CompletionBody::head(const char* object) const {
  if (call_.is_plain()) return "{\"id\":" + json_string(id_) + ",\"outputs\":[";
  std::string out = "{\"id\":" + json_string(id_) + ",\"object\":\"" + object + "\",\"created\":";
  out += std::to_string(created_) + ",\"model\":" + json_string(call_.model);
  return out + ",\"system_fingerprint\":null,\"choices\":[";
}

std::string CompletionBody::usage_json(const Usage& usage) const {
  std::string out = "{\"prompt_tokens\":" + std::to_string(usage.n_prompt_tokens);
  out += ",\"completion_tokens\":" + std::to_string(usage.n_completion_tokens);
  out += ",\"total_tokens\":" + std::to_string(usage.n_prompt_tokens + usage.n_completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.n_cached_tokens) + "},";
  return out + prefill_members(usage.prefill, call_.aux_info) + "}";
}

std::string CompletionBody::monograph_json(const PrefillInfo& prefill) const {
  return "{" + prefill_members(prefill, call_.aux_info) + "}";
}

/// From finish_reason on; the same in bodies and chunks.
std::string CompletionBody::choice_tail(const Choice& choice) const {
  std::string out = ",\"finish_reason\":";
  out += choice.finish ? finish_name(*choice.finish) : "null";
  if (!choice.finish) return out;
  out += ",\"stop_reason\":" + choice.stop_reason;
  return out + ",\"monograph\":" + monograph_json(choice.prefill);
}

// --- The whole body ---

std::string CompletionBody::whole_choice(int index, const Choice& choice, std::span<const TokenId> prompt) const {
  std::string out = "{\"index\":" + std::to_string(index);
  if (call_.is_chat())
    out += ",\"message\":{\"role\":\"assistant\",\"content\":" + json_string(choice.text) + ",\"refusal\":null}";
  else
    out += ",\"text\":" + json_string(choice.text);
  out += logprobs_member(choice) + choice_tail(choice);
  if (call_.return_token_ids) {
    out += ",\"token_ids\":" + ids_json(choice.ids);
    if (call_.api == Api::kCompletions) out += ",\"prompt_token_ids\":" + ids_json(prompt);
  }
  return out + "}";
}

std::string CompletionBody::whole(const std::vector<Choice>& choices, const Usage& usage,
                                  const std::vector<std::span<const TokenId>>& prompts) const {
  std::string out = head(call_.is_chat() ? "chat.completion" : "text_completion");
  for (int i = 0; i < static_cast<int>(choices.size()); ++i) {
    if (i > 0) out += ',';
    out += whole_choice(i, choices[static_cast<std::size_t>(i)], prompts[static_cast<std::size_t>(i / call_.n)]);
  }
  out += "],\"usage\":" + usage_json(usage) + ",\"monograph\":" + monograph_json(usage.prefill);
  if (call_.is_chat() && call_.return_token_ids) out += ",\"prompt_token_ids\":" + ids_json(prompts.front());
  return out + "}";
}

// --- Chunks ---

std::string CompletionBody::chunk(const Choice& choice, const Chunk& chunk) const {
  std::string out = head(call_.is_chat() ? "chat.completion.chunk" : "text_completion");
  out += "{\"index\":" + std::to_string(chunk.index);
  if (!call_.is_chat()) {
    out += ",\"text\":" + json_string(chunk.text);
  } else {
    out += ",\"delta\":{";
    if (chunk.is_first) out += "\"role\":\"assistant\",";
    if (chunk.is_first || !chunk.text.empty()) out += "\"content\":" + json_string(chunk.text);
    out += "}";
  }
  out += logprobs_member(choice) + choice_tail(choice);
  if (call_.return_token_ids) {
    out += ",\"token_ids\":" + (chunk.token ? "[" + std::to_string(*chunk.token) + "]" : std::string("[]"));
    if (call_.api == Api::kCompletions && chunk.is_first) out += ",\"prompt_token_ids\":" + ids_json(chunk.prompt_ids);
  }
  out += "}]";
  if (chunk.usage)
    out += ",\"usage\":" + usage_json(*chunk.usage);
  else if (call_.include_usage)
    out += ",\"usage\":null";
  if (call_.is_chat() && call_.return_token_ids && chunk.is_first)
    out += ",\"prompt_token_ids\":" + ids_json(chunk.prompt_ids);
  if (chunk.last) out += ",\"monograph\":" + monograph_json(chunk.last->prefill);
  return out + "}";
}

std::string CompletionBody::usage_chunk(const Usage& usage) const {
  return head(call_.is_chat() ? "chat.completion.chunk" : "text_completion") + "],\"usage\":" + usage_json(usage) +
         ",\"monograph\":" + monograph_json(usage.prefill) + "}";
}

}  // namespace monograph::server
