// Values as JSON, byte for byte as Python's json.dumps writes them.
#pragma once
#include <optional>
#include <string>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  ///< Of one level; none: all on one line.
  std::string between = ", ", after_key = ": ";
};

/// Fails, as json.dumps does, for what JSON has no word for.
TextPtr to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace monograph::jinja
