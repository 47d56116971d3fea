#include "monograph/error.h"

namespace monograph {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kUnreadableFile:
      return "unreadable_file";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kTryLater:
      return "try_later";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kDirtyCapture:
      return "dirty_capture";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace monograph
