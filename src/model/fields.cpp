#include "model/fields.h"

#include <cmath>

#include "model/file_reader.h"

namespace monograph {
namespace {

std::string short_text(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string range_text(double least, double most) {
  char text[80];
  std::snprintf(text, sizeof text, "%.10g to %.10g", least, most);
  return text;
}

}  // namespace

Fields::Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object())
    throw Error(ErrorCode::kUnreadableFile, where_ + "expected an object, found " + short_text(object));
}

const nlohmann::json* Fields::find(const std::string& key) const {
  const auto at = object_->find(key);
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

const nlohmann::json& Fields::need(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) throw Error(ErrorCode::kUnreadableFile, where_ + key + ": missing");
  return *value;
}

std::string Fields::found(const std::string& key) const {
  const nlohmann::json* value = find(key);
  return value == nullptr ? "nothing" : short_text(*value);
}

void Fields::fail(const std::string& key, const std::string& expected) const {
  throw Error(ErrorCode::kUnreadableFile, where_ + key + ": expected " + expected + ", found " + found(key));
}

void Fields::fail_unsupported(const std::string& key, const std::string& why) const {
  throw Error(ErrorCode::kUnsupported, where_ + key + ": " + found(key) + " " + why);
}

int Fields::to_integer(const std::string& key, const nlohmann::json& value, int least, int most) const {
  // Unsigned first: a number past 2^63 would turn negative as a signed one.
  const bool in_range =
      value.is_number_unsigned()
          ? most >= 0 && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                static_cast<std::int64_t>(value.get<std::uint64_t>()) >= least
          : value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
  if (!in_range) fail(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<int>(value.get<std::int64_t>());
}

int Fields::integer(const std::string& key, int least, int most) const {
  return to_integer(key, need(key), least, most);
}

std::optional<int> Fields::maybe_integer(const std::string& key, int least, int most) const {
  if (!has(key)) return std::nullopt;
  return integer(key, least, most);
}

float Fields::real(const std::string& key, double least, double most) const {
  const nlohmann::json& value = need(key);
  // The comparison is false for NaN, which GGUF can hold.
  if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
    fail(key, "a number from " + range_text(least, most));
  return static_cast<float>(value.get<double>());
}

std::optional<float> Fields::maybe_real(const std::string& key, double least, double most) const {
  if (!has(key)) return std::nullopt;
  return real(key, least, most);
}

bool Fields::boolean_or(const std::string& key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

std::string Fields::string(const std::string& key) const {
  const nlohmann::json& value = need(key);
  if (!value.is_string()) fail(key, "a string");
  return value.get<std::string>();
}

std::optional<std::string> Fields::maybe_string(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  return string(key);
}

std::vector<int> Fields::integers(const std::string& key, int least, int most) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {to_integer(key, *value, least, most)};
  std::vector<int> all;
  for (const auto& item : *value) all.push_back(to_integer(key, item, least, most));
  return all;
}

std::vector<std::string> Fields::strings(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) fail(key, "a list of strings");
  std::vector<std::string> all;
  for (const auto& item : *value) {
    if (!item.is_string()) fail(key, "a list of strings");
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::optional<Fields> Fields::maybe_object(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail(key, "an object");
  return Fields(*value, where_ + key + ".");
}

}  // namespace monograph
