// Typed, range-checked reading of one request field. Every function throws Error(kInvalidArgument) that names the
// field, what is allowed and what was found.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "monograph/sampling.h"

namespace monograph::server {

[[noreturn]] void refuse_field(const std::string& field, const std::string& why);
/// "`field` must be EXPECTED, not FOUND".
[[noreturn]] void refuse_value(const std::string& field, const std::string& expected, const Json& found);

struct Range {
  double least;
  double most;
  bool open_below = false;  ///< `least` itself is not allowed.
};

bool to_bool(const Json& value, const std::string& field);
double to_number(const Json& value, const std::string& field, Range range);
/// Also takes 16.0, which some languages write for 16.
std::int64_t to_integer(const Json& value, const std::string& field, std::int64_t least, std::int64_t most);
std::uint64_t to_seed(const Json& value, const std::string& field);
std::string to_text(const Json& value, const std::string& field, std::size_t max_bytes);
TokenId to_token(const Json& value, const std::string& field, int vocab_size);
std::vector<TokenId> to_tokens(const Json& value, const std::string& field, int vocab_size);

/// "field[3]".
std::string element(const std::string& field, std::size_t idx);
/// A short rendering of a value for a message.
std::string shown(const Json& value);

}  // namespace monograph::server
