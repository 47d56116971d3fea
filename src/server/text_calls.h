// Text to ids and back, and a chat as the model will see it: answers without the model running.
#pragma once
#include <string>
#include <string_view>

#include "monograph/engine.h"

namespace monograph::server {

/// Body to JSON. Throw Error naming the field. `/tokenize` takes {prompt | messages} and {content} alike.
std::string tokenize_call(Engine& engine, std::string_view body);
std::string detokenize_call(Engine& engine, std::string_view body);
std::string apply_template_call(Engine& engine, std::string_view body);

}  // namespace monograph::server
