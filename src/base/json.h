// Strict JSON from outside: valid UTF-8, no duplicate keys, bounded depth, size and number of values.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "monograph/error.h"

namespace monograph {

/// Keeps the order of keys. Looking a key up is linear: read a large object by walking it.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int max_depth = 128;                  ///< Nested arrays and objects; printing and walking recurse.
  std::int64_t max_values = 4'000'000;  ///< One costs up to 64 bytes, so a small text may ask for a lot of memory.
  std::int64_t max_bytes = 1ll << 30;   ///< Of the text.
  bool allow_duplicate_keys = false;    ///< True: the last one counts.
  ErrorCode code = ErrorCode::kInvalidArgument;  ///< What failures throw: kUnreadableFile for files.
};

/// Parses one JSON text. Throws Error(limits.code) "WHAT: not valid JSON at byte N: why"; the message is valid UTF-8
/// whatever the text holds. A number beyond double names its place, also as the error's field. No recursion, no
/// quadratic time.
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});
/// The same into nlohmann's sorted kind, whose objects are looked up in logarithmic time.
nlohmann::json parse_sorted_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

/// Appends `text` as a JSON string with its quotes. Ill-formed UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

/// True if `text` is well-formed UTF-8.
bool is_valid_utf8(std::string_view text);
/// Length of the well-formed UTF-8 character at `at`; 0 if there is none.
int utf8_length(std::string_view text, std::size_t at);

}  // namespace monograph
