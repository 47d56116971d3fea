// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}}.
#pragma once
#include <string>
#include <string_view>

#include "monograph/error.h"
#include "server/http_message.h"

namespace monograph::server {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;
  std::string param;  ///< Empty: null.
  std::string code;   ///< Empty: null.
  int n_prompt_tokens = -1;
  int n_ctx = -1;  ///< Both are shown for a prompt that does not fit.
};

/// Status, type and code that follow from an Error's code.
ApiError to_api_error(const Error& error);
/// An error of the HTTP layer itself; the type follows from the status.
ApiError http_error(int status, std::string message, std::string code = {});

/// Always valid UTF-8, whatever the message quotes.
std::string error_json(const ApiError& error);
/// With `Retry-After` where trying again makes sense.
HttpResponse error_response(const ApiError& error);

std::string_view reason_phrase(int status);

}  // namespace monograph::server
