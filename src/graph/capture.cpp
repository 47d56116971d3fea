#include "graph/capture.h"

#include <exception>
#include <string>

#include "monograph/error.h"

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

}  // namespace monograph
