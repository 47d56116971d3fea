#include "text/jinja/from_json.h"

#include <algorithm>

namespace monograph::jinja {
namespace {

bool is_plain_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

Value convert(Heap& heap, const TemplateValue& json, bool trusted, int depth) {
  if (depth > kMaxValueDepth)
    fail("the variables are nested more than " + std::to_string(kMaxValueDepth) + " levels deep");
  heap.step();
  switch (json.type()) {
    case TemplateValue::value_t::boolean:
      return Value(json.get<bool>());
    case TemplateValue::value_t::number_integer:
      return Value::integer(json.get<std::int64_t>());
    case TemplateValue::value_t::number_unsigned:
      return Value::integer(json.get<std::uint64_t>());
    case TemplateValue::value_t::number_float:
      return Value(json.get<double>());
    case TemplateValue::value_t::string:
      return Value(heap.counted(make_text(json.get_ref<const std::string&>(), !trusted)));
    case TemplateValue::value_t::array: {
      std::vector<Value> items;
      for (const TemplateValue& item : json) items.push_back(convert(heap, item, false, depth + 1));
      return heap.list(std::move(items));
    }
    case TemplateValue::value_t::object: {
      auto* dict = heap.make<Dict>();
      heap.charge(static_cast<std::int64_t>(json.size() * 2 * sizeof(Value)));
      for (const auto& [key, item] : json.items()) {
        const bool role = key == "role" && item.is_string() && is_plain_word(item.get_ref<const std::string&>());
        dict->items.emplace_back(heap.counted(make_text(key, true)), convert(heap, item, role, depth + 1));
      }
      return Value(dict);
    }
    default:
      return Value();
  }
}

}  // namespace

Value from_variable(Heap& heap, std::string_view name, const TemplateValue& json) {
  return convert(heap, json, name.ends_with("_token"), 0);
}

}  // namespace monograph::jinja
