#include "model/stored_model.h"
#include "monograph/error.h"

namespace monograph {
std::unique_ptr<ModelFiles> open_hf_model(const std::string& folder) {
  throw Error(ErrorCode::kUnsupported, folder + ": folders are not read yet");
}
}  // namespace monograph
