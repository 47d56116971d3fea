#include "model/json_file.h"

#include "base/json.h"
#include "model/file_reader.h"

namespace monograph {

nlohmann::json parse_file_json(std::string_view text, const std::string& path) {
  JsonLimits limits;
  limits.max_depth = 32;
  // A safetensors entry, the densest thing there is, has 8 values in some 60 bytes.
  limits.max_values = static_cast<std::int64_t>(text.size()) / 4 + 64;
  limits.code = ErrorCode::kUnreadableFile;
  return parse_sorted_json(text, path, limits);
}

nlohmann::json read_json_file(const std::string& path, std::int64_t max_bytes) {
  return parse_file_json(read_text(path, max_bytes), path);
}

}  // namespace monograph
