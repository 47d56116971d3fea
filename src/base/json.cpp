#include "base/json.h"

#include <algorithm>
#include <vector>

namespace monograph {
namespace {

using Sorted = nlohmann::json;

template <typename J>
class Builder {
 public:
  using number_integer_t = typename J::number_integer_t;
  using number_unsigned_t = typename J::number_unsigned_t;
  using number_float_t = typename J::number_float_t;
  using string_t = typename J::string_t;
  using binary_t = typename J::binary_t;

  Builder(std::string_view what, const JsonLimits& limits) : what_(what), limits_(limits) {}

  bool null() { return add(J(nullptr)); }
  bool boolean(bool value) { return add(J(value)); }
  bool number_integer(number_integer_t value) { return add(J(value)); }
  bool number_unsigned(number_unsigned_t value) { return add(J(value)); }
  bool number_float(number_float_t value, const string_t&) { return add(J(value)); }
  bool string(string_t& value) { return add(J(std::move(value))); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(J(J::value_t::object)); }
  bool start_array(std::size_t) { return open(J(J::value_t::array)); }
  bool key(string_t& name) {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() {
    finish_object(open_.back().value->template get_ref<typename J::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  // nlohmann's text may quote raw bytes of the input, so only its kind is used.
  template <typename Exception>
  [[noreturn]] bool parse_error(std::size_t position, const std::string&, const Exception& error) {
    const std::string where = "not valid JSON at byte " + std::to_string(position);
    const bool too_large = std::string_view(error.what()).find("out_of_range") != std::string_view::npos;
    if (!too_large) fail(where);
    const std::string field = current_path();
    if (field.empty()) fail(where + ": a number is out of range");
    throw Error(limits_.code, std::string(what_) + ": " + where + ": the number of `" + field + "` is out of range",
                field);
  }

  J take() { return std::move(root_); }
  [[noreturn]] void fail(const std::string& why) const { throw Error(limits_.code, std::string(what_) + ": " + why); }

 private:
  struct Open {
    J* value;
    std::string key;
  };

  /// Where the next value goes, as `logit_bias.5` or `prompt[3]`; only for errors, it searches.
  std::string current_path() const {
    std::string path;
    const auto append = [&](const J& parent, const std::string& key, std::size_t index) {
      if (parent.is_array())
        path += "[" + std::to_string(index) + "]";
      else
        path += (path.empty() ? "" : ".") + key;
    };
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const J& parent = *open_[i].value;
      std::size_t index = 0;
      for (const auto& [key, value] : parent.items()) {
        if (&value == open_[i + 1].value) append(parent, key, index);
        ++index;
      }
    }
    if (!open_.empty()) append(*open_.back().value, open_.back().key, open_.back().value->size());
    return path;
  }

  bool add(J value) {
    place(std::move(value));
    return true;
  }
  bool open(J value) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      fail("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    open_.push_back({place(std::move(value)), {}});
    return true;
  }
  J* place(J value) {
    if (++n_values_ > limits_.max_values) fail("more than " + std::to_string(limits_.max_values) + " values");
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Open& parent = open_.back();
    if (parent.value->is_array()) {
      auto& array = parent.value->template get_ref<typename J::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    return place_member(parent.value->template get_ref<typename J::object_t&>(), std::move(parent.key),
                        std::move(value));
  }

  // Appended without a search, which is linear for each key; finish_object() looks for duplicates.
  Json* place_member(Json::object_t& object, std::string key, Json value) {
    auto& members = static_cast<std::vector<Json::object_t::value_type, Json::object_t::allocator_type>&>(object);
    return &members.emplace_back(std::move(key), std::move(value)).second;
  }
  Sorted* place_member(Sorted::object_t& object, std::string key, Sorted value) {
    const auto [at, is_new] = object.try_emplace(std::move(key));
    if (!is_new && !limits_.allow_duplicate_keys) fail("key " + json_string(at->first) + " stands twice in one object");
    at->second = std::move(value);
    return &at->second;
  }

  void finish_object(Sorted::object_t&) {}
  void finish_object(Json::object_t& object) {
    std::vector<std::pair<std::string_view, std::size_t>> keys;
    keys.reserve(object.size());
    for (const auto& [key, value] : object) keys.emplace_back(key, keys.size());
    std::sort(keys.begin(), keys.end());
    std::vector<std::size_t> dropped;
    for (std::size_t i = 1; i < keys.size(); ++i) {
      if (keys[i].first != keys[i - 1].first) continue;
      if (!limits_.allow_duplicate_keys) fail("key " + json_string(keys[i].first) + " stands twice in one object");
      dropped.push_back(keys[i - 1].second);
    }
    if (!dropped.empty()) drop(object, std::move(dropped));
  }
  static void drop(Json::object_t& object, std::vector<std::size_t> dropped) {
    std::sort(dropped.begin(), dropped.end());
    Json::object_t kept;
    auto& members = static_cast<std::vector<Json::object_t::value_type, Json::object_t::allocator_type>&>(kept);
    std::size_t at = 0;
    for (auto& [key, value] : object)
      if (!std::binary_search(dropped.begin(), dropped.end(), at++)) members.emplace_back(key, std::move(value));
    object = std::move(kept);
  }

  std::string_view what_;
  const JsonLimits& limits_;
  J root_;
  std::vector<Open> open_;
  std::int64_t n_values_ = 0;
};

template <typename J>
J parse(std::string_view text, std::string_view what, const JsonLimits& limits) {
  Builder<J> builder(what, limits);
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes)
    builder.fail("longer than " + std::to_string(limits.max_bytes) + " bytes");
  J::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

bool is_continuation(std::string_view text, std::size_t at, unsigned least = 0x80, unsigned most = 0xbf) {
  return at < text.size() && static_cast<unsigned char>(text[at]) >= least &&
         static_cast<unsigned char>(text[at]) <= most;
}

void append_escaped_control(std::string& out, unsigned char c) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u00";
  out += kHex[c >> 4];
  out += kHex[c & 15];
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      append_escaped_control(out, static_cast<unsigned char>(c));
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<Json>(text, what, limits);
}

nlohmann::json parse_sorted_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<Sorted>(text, what, limits);
}

int utf8_length(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 0;
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  if (lead < 0xe0) return is_continuation(text, at + 1) ? 2 : 0;
  if (lead < 0xf0) {
    // No overlong forms, no surrogates.
    const bool second = is_continuation(text, at + 1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && is_continuation(text, at + 2) ? 3 : 0;
  }
  const bool second = is_continuation(text, at + 1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
  return second && is_continuation(text, at + 2) && is_continuation(text, at + 3) ? 4 : 0;
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const int length = utf8_length(text, at);
    if (length == 0) return false;
    at += static_cast<std::size_t>(length);
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto* end = std::find_if_not(text.begin() + at, text.end(), is_plain);
    out.append(text.begin() + at, end);
    at = static_cast<std::size_t>(end - text.begin());
    if (at == text.size()) break;
    const int length = utf8_length(text, at);
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (length == 1)
      append_escaped(out, text[at]);
    else
      out.append(text, at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(std::max(length, 1));
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace monograph
