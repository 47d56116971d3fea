// Chat messages in OpenAI's shapes to the variables of a chat template.
#pragma once
#include <string>

#include "base/json.h"

namespace monograph::server {

/// The parts of a request that make the prompt of a chat.
struct ChatInput {
  Json messages;
  Json template_kwargs = Json::object();
  bool add_generation_prompt = true;
};

/// Checks `messages`; text parts become one string, tool-call arguments become objects, as templates read them.
/// Throws Error(kInvalidArgument) naming the message and field.
Json read_messages(const Json& messages);
/// Checks `chat_template_kwargs`.
Json read_template_kwargs(const Json& kwargs, const std::string& field);
/// The text for Request::chat.
std::string chat_text(const ChatInput& input);

}  // namespace monograph::server
