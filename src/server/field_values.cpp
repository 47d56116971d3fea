#include "server/field_values.h"

#include <cmath>
#include <cstdio>

namespace monograph::server {
namespace {

constexpr std::size_t kShownBytes = 40;

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string range_text(Range range) {
  if (range.open_below) return "above " + number_text(range.least) + " and at most " + number_text(range.most);
  return "from " + number_text(range.least) + " to " + number_text(range.most);
}

std::string cut(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size() && at < kShownBytes) at += static_cast<std::size_t>(std::max(utf8_length(text, at), 1));
  return at < text.size() ? text.substr(0, at) + "..." : text;
}

}  // namespace

void refuse_field(const std::string& field, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "`" + field + "` " + why, field);
}

void refuse_value(const std::string& field, const std::string& expected, const Json& found) {
  refuse_field(field, "must be " + expected + ", not " + shown(found));
}

std::string shown(const Json& value) {
  if (value.is_string()) return json_string(cut(value.get_ref<const std::string&>()));
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_object()) return "an object";
  return value.dump();
}

bool to_bool(const Json& value, const std::string& field) {
  if (!value.is_boolean()) refuse_value(field, "true or false", value);
  return value.get<bool>();
}

double to_number(const Json& value, const std::string& field, Range range) {
  if (!value.is_number()) refuse_value(field, "a number " + range_text(range), value);
  const auto number = value.get<double>();
  const bool is_in = (range.open_below ? number > range.least : number >= range.least) && number <= range.most;
  if (!is_in) refuse_value(field, range_text(range), value);
  return number;
}

std::int64_t to_integer(const Json& value, const std::string& field, std::int64_t least, std::int64_t most) {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  std::int64_t number = 0;
  if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (std::trunc(real) != real || std::fabs(real) > 9e15) refuse_value(field, expected, value);
    number = static_cast<std::int64_t>(real);
  } else if (value.is_number_unsigned()) {
    const auto big = value.get<std::uint64_t>();
    if (big > static_cast<std::uint64_t>(INT64_MAX)) refuse_value(field, expected, value);
    number = static_cast<std::int64_t>(big);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else {
    refuse_value(field, expected, value);
  }
  if (number < least || number > most) refuse_value(field, expected, value);
  return number;
}

std::uint64_t to_seed(const Json& value, const std::string& field) {
  if (!value.is_number_unsigned()) refuse_value(field, "a whole number of at most 64 bits, not negative", value);
  return value.get<std::uint64_t>();
}

std::string to_text(const Json& value, const std::string& field, std::size_t max_bytes) {
  if (!value.is_string()) refuse_value(field, "a string", value);
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > max_bytes) refuse_field(field, "must be at most " + std::to_string(max_bytes) + " bytes long");
  return text;
}

TokenId to_token(const Json& value, const std::string& field, int vocab_size) {
  return static_cast<TokenId>(to_integer(value, field, 0, vocab_size - 1));
}

std::vector<TokenId> to_tokens(const Json& value, const std::string& field, int vocab_size) {
  if (!value.is_array()) refuse_value(field, "a list of token ids", value);
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    // The name of an element costs more than its check; it is made only for a bad one.
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size))
      ids.push_back(static_cast<TokenId>(id.get<std::uint64_t>()));
    else
      ids.push_back(to_token(id, element(field, ids.size()), vocab_size));
  }
  return ids;
}

std::string element(const std::string& field, std::size_t idx) { return field + "[" + std::to_string(idx) + "]"; }

}  // namespace monograph::server
