// How the parts of the template engine fail; ChatTemplate turns it into an Error that names the line.
#pragma once
#include <stdexcept>
#include <string>

#include "monograph/error.h"

namespace monograph::jinja {

struct Failure : std::runtime_error {
  Failure(ErrorCode error_code, const std::string& message, int at_line = 0)
      : std::runtime_error(message), code(error_code), line(at_line) {}
  ErrorCode code;
  int line;  ///< 0: where the interpreter stands.
};

/// The template called raise_exception(); its text goes to the caller unchanged.
struct RaisedByTemplate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What Python would raise at this point (TypeError, UndefinedError, ValueError ...).
[[noreturn]] inline void fail(const std::string& message) { throw Failure(ErrorCode::kInvalidArgument, message); }
/// Legal Jinja that this engine does not do.
[[noreturn]] inline void unsupported(const std::string& what) { throw Failure(ErrorCode::kUnsupported, what); }

}  // namespace monograph::jinja
