#include "monograph/error.h"
#include "text/tokenizer.h"

namespace monograph {

TokenizerSpec Tokenizer::spec_from_json(std::string_view, std::string_view) {
  throw Error(ErrorCode::kUnsupported, "tokenizer.json: reading it is not built yet");
}

}  // namespace monograph
