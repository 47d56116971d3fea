// Typed, range-checked reading of an object's fields: config.json and the scalar keys of a GGUF file alike.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "monograph/error.h"

namespace monograph {

/// Borrows the JSON. A field that is null counts as absent. Every function throws Error naming file, key, what was
/// expected and what was found.
class Fields {
 public:
  /// `where` begins every message: "path/config.json: ". Throws if `object` is not an object.
  Fields(const nlohmann::json& object, std::string where);

  bool has(const std::string& key) const { return find(key) != nullptr; }
  int integer(const std::string& key, int least, int most) const;
  std::optional<int> maybe_integer(const std::string& key, int least, int most) const;
  float real(const std::string& key, double least, double most) const;
  std::optional<float> maybe_real(const std::string& key, double least, double most) const;
  bool boolean_or(const std::string& key, bool fallback) const;
  std::string string(const std::string& key) const;
  std::optional<std::string> maybe_string(const std::string& key) const;
  /// One integer or a list of them; empty if absent.
  std::vector<int> integers(const std::string& key, int least, int most) const;
  /// A list of strings; empty if absent.
  std::vector<std::string> strings(const std::string& key) const;
  std::optional<Fields> maybe_object(const std::string& key) const;
  bool is_list(const std::string& key) const { return has(key) && find(key)->is_array(); }

  /// The field as a short text for messages.
  std::string found(const std::string& key) const;
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;
  [[noreturn]] void fail_unsupported(const std::string& key, const std::string& why) const;

 private:
  const nlohmann::json* find(const std::string& key) const;
  const nlohmann::json& need(const std::string& key) const;
  int to_integer(const std::string& key, const nlohmann::json& value, int least, int most) const;

  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace monograph
