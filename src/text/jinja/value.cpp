#include "text/jinja/value.h"

namespace monograph::jinja {
namespace {

std::string sequence_name(SequenceType type) {
  switch (type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kKeys:
      return "dict_keys";
    case SequenceType::kValues:
      return "dict_values";
    case SequenceType::kItems:
      return "dict_items";
  }
  return "list";
}

struct NameOf {
  std::string operator()(None) const { return "NoneType"; }
  std::string operator()(const Undefined&) const { return "Undefined"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(Int) const { return "int"; }
  std::string operator()(double) const { return "float"; }
  std::string operator()(const TextPtr& text) const { return text->markup ? "Markup" : "str"; }
  std::string operator()(const Sequence* sequence) const { return sequence_name(sequence->type); }
  std::string operator()(const Dict*) const { return "dict"; }
  std::string operator()(const Iterator*) const { return "generator"; }
  std::string operator()(const Namespace*) const { return "Namespace"; }
  std::string operator()(const Callable* callable) const { return callable->macro ? "Macro" : "function"; }
  std::string operator()(const Loop*) const { return "LoopContext"; }
  std::string operator()(const Cycler*) const { return "Cycler"; }
};

}  // namespace

std::string type_name(const Value& value) { return std::visit(NameOf{}, value.storage()); }

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (const Text* text = name.text(); text && text->bytes == key) return &value;
  }
  return nullptr;
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace monograph::jinja
