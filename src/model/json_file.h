// JSON files of a model folder, read strictly.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace monograph {

/// Parses text that came from `path`. Duplicate keys, invalid UTF-8, deep nesting and more values than text of that
/// length can hold in earnest are Error(kUnreadableFile). So no text takes more than a small multiple of its size.
nlohmann::json parse_file_json(std::string_view text, const std::string& path);

/// The same for a whole file of at most `max_bytes`.
nlohmann::json read_json_file(const std::string& path, std::int64_t max_bytes);

}  // namespace monograph
