#include "text/jinja/builtins.h"

#include <algorithm>

#include "text/jinja/filter_tables.h"

namespace monograph::jinja {
namespace {

Native find_in(std::span<const NamedNative> table, std::string_view name) {
  for (const auto& [entry, native] : table) {
    if (entry == name) return native;
  }
  return nullptr;
}

constexpr std::string_view kRefusedFilters[] = {"filesizeformat", "pprint", "random",   "striptags",
                                                "urlencode",      "urlize", "wordwrap", "xmlattr"};

}  // namespace

Native find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), list_filters(), pick_filters()}) {
    if (const Native native = find_in(table, name)) return native;
  }
  return nullptr;
}

bool is_refused_filter(std::string_view name) {
  return std::find(std::begin(kRefusedFilters), std::end(kRefusedFilters), name) != std::end(kRefusedFilters);
}

bool is_refused_global(std::string_view name) { return name == "lipsum" || name == "self"; }

}  // namespace monograph::jinja
