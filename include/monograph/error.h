// The one exception type of Monograph, and the codes it carries.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace monograph {

/// Why something failed. The HTTP layer maps a code to a status, `main` to an exit code.
enum class ErrorCode {
  kInvalidArgument,  ///< A request, a setting or a file asks for something impossible (HTTP 400).
  kNotFound,         ///< A model, path or route that does not exist (HTTP 404).
  kUnreadableFile,   ///< A file that cannot be opened or does not hold what its format promises.
  kUnsupported,      ///< Well-formed, but not something this build or device can do.
  kTryLater,         ///< Queue full (HTTP 429).
  kUnavailable,      ///< Loading, draining or stopped (HTTP 503).
  kOutOfMemory,      ///< Host or device memory, or the KV pool.
  kCancelled,        ///< The caller went away.
  kDevice,           ///< A device fault; the process must end, its context does not recover.
  kDirtyCapture,     ///< A failure inside a capture; start-up must end (SPEC S-28).
  kInternal,         ///< A bug that was caught before it could give a wrong answer.
};

std::string_view to_string(ErrorCode code);

/// Thrown for every failure that is not a broken invariant. `what()` names what was read, what was expected and what
/// was found. `field` is the request field or flag at fault, when there is one.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string field = {})
      : std::runtime_error(message), code_(code), field_(std::move(field)) {}
  ErrorCode code() const { return code_; }
  const std::string& field() const { return field_; }

 private:
  ErrorCode code_;
  std::string field_;
};

/// A prompt that does not fit the context (HTTP 400), with both numbers, for clients that shorten it and try again.
class PromptTooLong : public Error {
 public:
  PromptTooLong(const std::string& message, std::string field, int n_prompt_tokens, int n_ctx)
      : Error(ErrorCode::kInvalidArgument, message, std::move(field)),
        n_prompt_tokens_(n_prompt_tokens),
        n_ctx_(n_ctx) {}
  int n_prompt_tokens() const { return n_prompt_tokens_; }
  int n_ctx() const { return n_ctx_; }

 private:
  int n_prompt_tokens_;
  int n_ctx_;
};

}  // namespace monograph
