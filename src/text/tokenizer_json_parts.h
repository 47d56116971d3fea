// Checked access to the members of tokenizer.json: what is wrong is named with its place.
#pragma once
#include <string>

#include "base/json.h"
#include "monograph/error.h"
#include "text/tokenizer.h"

namespace monograph::tokenizer_json {

[[noreturn]] inline void refuse(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::kUnreadableFile, "tokenizer.json: " + (where.empty() ? why : where + ": " + why));
}
[[noreturn]] inline void cannot(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, "tokenizer.json: " + to_valid_utf8(what) + " is not supported");
}

// Members of a JSON object, with the place they stand at for messages.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_, std::string("expected an object, found ") + json.type_name());
  }
  const std::string& where() const { return where_; }
  /// Null where the member is absent or null.
  const Json* find(const std::string& key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  const Json& array(const std::string& key) const { return typed(key, &Json::is_array, "an array"); }
  Object object(const std::string& key) const { return {typed(key, &Json::is_object, "an object"), path(key)}; }
  const Json& raw_object(const std::string& key) const { return typed(key, &Json::is_object, "an object"); }
  std::string text(const std::string& key) const { return typed(key, &Json::is_string, "a string").get<std::string>(); }
  std::string text_or(const std::string& key, const std::string& otherwise) const {
    return find(key) ? text(key) : otherwise;
  }
  bool flag_or(const std::string& key, bool otherwise) const {
    return find(key) ? typed(key, &Json::is_boolean, "true or false").get<bool>() : otherwise;
  }
  TokenId id(const std::string& key) const {
    return id_of(typed(key, &Json::is_number_integer, "a token id"), path(key));
  }
  static TokenId id_of(const Json& value, const std::string& where) {
    constexpr std::int64_t kMax = (1 << 24) - 1;
    if (!value.is_number_integer()) refuse(where, std::string("expected a token id, found ") + value.type_name());
    const auto id = value.get<std::int64_t>();
    if (id < 0 || id > kMax)
      refuse(where, "token id " + std::to_string(id) + " is outside 0 to " + std::to_string(kMax));
    return static_cast<TokenId>(id);
  }

 private:
  std::string path(const std::string& key) const { return where_.empty() ? key : where_ + "." + key; }
  const Json& typed(const std::string& key, bool (Json::*test)() const noexcept, const std::string& what) const {
    const Json* value = find(key);
    if (!value) refuse(path(key), "missing, expected " + what);
    if (!(value->*test)()) refuse(path(key), "expected " + what + ", found " + value->type_name());
    return *value;
  }

  const Json& json_;
  std::string where_;
};

/// The pattern of a Split or Replace if it is of that kind ("String", "Regex"); else empty.
inline std::string pattern_of(const Object& part, const std::string& kind) {
  return part.object("pattern").text_or(kind, "");
}
/// One part of the normalizer as a step.
NormalizeStep read_normalizer(const Object& part);

}  // namespace monograph::tokenizer_json
