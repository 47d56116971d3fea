#include "graph/capture.h"

#include <exception>
#include <string>

#include "monograph/error.h"
#include "ops/attention.h"

namespace monograph {

std::unique_ptr<Graph> capture_graph(Device& device, const std::function<void()>& prepare,
                                     const std::function<void()>& work) {
  if (prepare) prepare();
  try {
    return device.capture(work);
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kDirtyCapture, std::string("capture failed and cannot be undone: ") + e.what());
  } catch (...) {
    throw Error(ErrorCode::kDirtyCapture, "capture failed and cannot be undone: an exception of unknown type");
  }
}

std::optional<CleanFailure> try_to_capture(const std::function<void()>& create) {
  try {
    create();
    return std::nullopt;
  } catch (const AttentionUnsupported& e) {
    return CleanFailure{PrefillStatus::kAttentionBackendUnsupported, e.what()};
  } catch (const Error& e) {
    const auto code = e.code();
    if (code == ErrorCode::kDirtyCapture || code == ErrorCode::kDevice || code == ErrorCode::kCancelled) throw;
    return CleanFailure{PrefillStatus::kCaptureUnavailable, e.what()};
  } catch (const std::exception& e) {
    return CleanFailure{PrefillStatus::kCaptureUnavailable, e.what()};
  } catch (...) {
    return CleanFailure{PrefillStatus::kCaptureUnavailable, "an exception of unknown type"};
  }
}

}  // namespace monograph
