#include "server/chat_messages.h"

#include "server/field_values.h"

namespace monograph::server {
namespace {

constexpr std::size_t kMaxMessages = 4096;
constexpr std::size_t kMaxNameBytes = 256;

std::string text_of_part(const Json& part, const std::string& field) {
  if (!part.is_object()) refuse_value(field, "an object with `type` and `text`", part);
  const auto type = part.find("type");
  if (type == part.end() || *type != "text")
    refuse_field(field + ".type", "must be \"text\", not " + (type == part.end() ? "absent" : shown(*type)) +
                                      ": this model reads text only");
  const auto text = part.find("text");
  if (text == part.end() || !text->is_string()) refuse_field(field + ".text", "must be a string");
  return text->get<std::string>();
}

// Templates of text models expect a string; parts are joined by newlines.
Json content_of(const Json& content, const std::string& field) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) refuse_value(field, "a string or a list of text parts", content);
  std::string joined;
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (i > 0) joined += "\n";
    joined += text_of_part(content[i], element(field, i));
  }
  return joined;
}

// Clients send arguments as JSON text; templates print them as an object. Text that is no object stays text.
Json call_with_object_arguments(Json call, const std::string& field) {
  if (!call.is_object()) refuse_value(field, "an object", call);
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) refuse_field(field + ".function", "must be an object");
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || !arguments->is_string()) return call;
  try {
    Json parsed = parse_json(arguments->get_ref<const std::string&>(), field + ".function.arguments");
    if (parsed.is_object()) *arguments = std::move(parsed);
  } catch (const Error&) {
    return call;
  }
  return call;
}

Json calls_of(const Json& calls, const std::string& field) {
  if (!calls.is_array()) refuse_value(field, "a list", calls);
  Json out = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) out.push_back(call_with_object_arguments(calls[i], element(field, i)));
  return out;
}

Json read_message(const Json& message, const std::string& field) {
  if (!message.is_object()) refuse_value(field, "an object with `role` and `content`", message);
  const auto role = message.find("role");
  if (role == message.end()) refuse_field(field + ".role", "is missing");
  if (to_text(*role, field + ".role", kMaxNameBytes).empty()) refuse_field(field + ".role", "must not be empty");
  Json out = Json::object();
  bool has_calls = false;
  for (const auto& [key, value] : message.items()) {
    if (key == "content") {
      out[key] = content_of(value, field + ".content");
    } else if (key == "tool_calls" && !value.is_null()) {
      out[key] = calls_of(value, field + ".tool_calls");
      has_calls = !value.empty();
    } else {
      out[key] = value;
    }
  }
  const auto content = out.find("content");
  const bool has_content = content != out.end() && !content->is_null();
  if (!has_content && !has_calls) refuse_field(field + ".content", "must be a string or a list of text parts");
  return out;
}

}  // namespace

Json read_messages(const Json& messages) {
  if (!messages.is_array()) refuse_value("messages", "a list of messages", messages);
  if (messages.empty()) refuse_field("messages", "must hold at least one message");
  if (messages.size() > kMaxMessages)
    refuse_field("messages", "must hold at most " + std::to_string(kMaxMessages) + " messages");
  Json out = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) out.push_back(read_message(messages[i], element("messages", i)));
  return out;
}

Json read_template_kwargs(const Json& kwargs, const std::string& field) {
  if (!kwargs.is_object()) refuse_value(field, "an object", kwargs);
  for (const char* reserved : {"messages", "tools", "add_generation_prompt", "chat_template", "tokenize"})
    if (kwargs.contains(reserved)) refuse_field(field + "." + reserved, "cannot be set here");
  return kwargs;
}

std::string chat_text(const ChatInput& input) {
  Json chat = Json::object();
  chat["messages"] = input.messages;
  chat["add_generation_prompt"] = input.add_generation_prompt;
  for (const auto& [key, value] : input.template_kwargs.items()) chat[key] = value;
  return chat.dump();
}

}  // namespace monograph::server
