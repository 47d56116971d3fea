#include "server/text_calls.h"

#include "base/json.h"
#include "server/chat_messages.h"
#include "server/field_values.h"

namespace monograph::server {
namespace {

Json parse_object(std::string_view body) {
  Json json = parse_json(body, "the request body");
  if (!json.is_object())
    throw Error(ErrorCode::kInvalidArgument, "the request body must be a JSON object, not " + shown(json));
  return json;
}

const Json* find(const Json& body, const char* field) {
  const auto at = body.find(field);
  return at == body.end() || at->is_null() ? nullptr : &*at;
}

bool flag_or(const Json& body, const char* field, bool fallback) {
  const Json* value = find(body, field);
  return value ? to_bool(*value, field) : fallback;
}

std::string read_chat(const Json& body, const Engine& engine) {
  const Json* messages = find(body, "messages");
  if (!messages) refuse_field("messages", "is missing");
  if (!engine.info().has_chat_template) refuse_field("messages", "cannot be used: the model has no chat template");
  ChatInput input;
  input.messages = read_messages(*messages);
  input.add_generation_prompt = flag_or(body, "add_generation_prompt", true);
  if (const Json* kwargs = find(body, "chat_template_kwargs"))
    input.template_kwargs = read_template_kwargs(*kwargs, "chat_template_kwargs");
  if (const Json* tools = find(body, "tools"); tools && !tools->empty())
    refuse_field("tools", "is not supported by this server");
  return chat_text(input);
}

std::string list_json(std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
  return out + "]";
}

// A piece that is no whole character is shown as its bytes.
std::string piece_json(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return json_string(bytes);
  std::string out = "[";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  return out + "]";
}

std::string pieces_json(const Engine& engine, std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"id\":" + std::to_string(ids[i]) + ",\"piece\":" + piece_json(engine.token_text(ids[i])) + "}";
  }
  return out + "]";
}

std::string strings_json(const Engine& engine, std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, engine.token_text(ids[i]));
  }
  return out + "]";
}

// llama.cpp's form; its defaults differ from the other's.
std::string tokenize_content(const Engine& engine, const Json& body) {
  const std::string text = to_text(body["content"], "content", SIZE_MAX);
  const auto ids = engine.tokenize(text, flag_or(body, "add_special", false), flag_or(body, "parse_special", true));
  const bool with_pieces = flag_or(body, "with_pieces", false);
  return "{\"tokens\":" + (with_pieces ? pieces_json(engine, ids) : list_json(ids)) + "}";
}

// The same ids as a completion or chat with this prompt.
std::vector<TokenId> tokenize_input(const Engine& engine, const Json& body) {
  if (const Json* prompt = find(body, "prompt")) {
    const std::string text = to_text(*prompt, "prompt", SIZE_MAX);
    return engine.tokenize(text, flag_or(body, "add_special_tokens", true), flag_or(body, "parse_special", false));
  }
  if (!find(body, "messages")) refuse_field("prompt", "is missing (or `messages`, or `content`)");
  return engine.tokenize_chat(read_chat(body, engine));
}

}  // namespace

std::string tokenize_call(Engine& engine, std::string_view text) {
  const Json body = parse_object(text);
  if (find(body, "content")) return tokenize_content(engine, body);
  const auto ids = tokenize_input(engine, body);
  std::string out = "{\"count\":" + std::to_string(ids.size());
  out += ",\"max_model_len\":" + std::to_string(engine.info().max_seq_len) + ",\"tokens\":" + list_json(ids);
  out += ",\"token_strs\":" + (flag_or(body, "return_token_strs", false) ? strings_json(engine, ids) : "null");
  return out + "}";
}

std::string detokenize_call(Engine& engine, std::string_view text) {
  const Json body = parse_object(text);
  const Json* tokens = find(body, "tokens");
  if (!tokens) refuse_field("tokens", "is missing");
  const auto ids = to_tokens(*tokens, "tokens", engine.info().vocab_size);
  const std::string decoded = json_string(engine.detokenize(ids));
  return "{\"prompt\":" + decoded + ",\"content\":" + decoded + "}";
}

std::string apply_template_call(Engine& engine, std::string_view text) {
  return "{\"prompt\":" + json_string(engine.render_chat(read_chat(parse_object(text), engine))) + "}";
}

}  // namespace monograph::server
