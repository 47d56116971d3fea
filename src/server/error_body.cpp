#include "server/error_body.h"

#include "base/json.h"

namespace monograph::server {
namespace {

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kTryLater:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kCancelled:
      return 503;
    case ErrorCode::kOutOfMemory:
      return 503;
    case ErrorCode::kUnreadableFile:
    case ErrorCode::kDevice:
    case ErrorCode::kDirtyCapture:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

std::string type_of(int status) {
  switch (status) {
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string nullable(const std::string& text) { return text.empty() ? "null" : json_string(text); }

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError out = http_error(status_of(error.code()), error.what());
  out.param = error.field();
  if (error.code() == ErrorCode::kTryLater) out.code = "queue_full";
  if (error.code() == ErrorCode::kNotFound && error.field() == "model") out.code = "model_not_found";
  if (const auto* too_long = dynamic_cast<const PromptTooLong*>(&error)) {
    out.code = "context_length_exceeded";
    out.n_prompt_tokens = too_long->n_prompt_tokens();
    out.n_ctx = too_long->n_ctx();
  }
  return out;
}

ApiError http_error(int status, std::string message, std::string code) {
  ApiError out;
  out.status = status;
  out.message = std::move(message);
  out.type = type_of(status);
  out.code = std::move(code);
  return out;
}

std::string error_json(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":" + json_string(error.message) + ",\"type\":" + json_string(error.type);
  out += ",\"param\":" + nullable(error.param) + ",\"code\":" + nullable(error.code);
  if (error.n_ctx >= 0) {
    out += ",\"n_prompt_tokens\":" + std::to_string(error.n_prompt_tokens);
    out += ",\"n_ctx\":" + std::to_string(error.n_ctx);
  }
  return out + "}}";
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 429 || error.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

}  // namespace monograph::server
