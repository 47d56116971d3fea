// Where variables live while a template runs.
#pragma once
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace monograph::jinja {

/// One level of variables: the template, a loop's turn, a macro call, a block with a scope of its own.
struct Scope : Object {
  Scope* parent = nullptr;
  bool captured = false;  ///< A macro made inside may outlive it, so it is not used again for the next turn.
  std::vector<std::pair<Symbol, Value>> variables;

  void set(Symbol symbol, Value value) {
    for (auto& [name, old] : variables) {
      if (name == symbol) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(symbol, std::move(value));
  }
  const Value* find(Symbol symbol) const {
    for (const Scope* scope = this; scope; scope = scope->parent) {
      for (const auto& [name, value] : scope->variables) {
        if (name == symbol) return &value;
      }
    }
    return nullptr;
  }
};

}  // namespace monograph::jinja
