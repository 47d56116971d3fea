// What a parse collects beside the tree: the table of names, how deep it stands, and filters it did not find.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/failure.h"
#include "text/jinja/limits.h"

namespace monograph::jinja {

struct ParseState {
  std::vector<std::string> names;
  std::unordered_map<std::string, Symbol> symbols;
  std::vector<MacroNode*> macros;  ///< Those being parsed, outermost first.
  std::vector<Failure> unknown;    ///< Filters and tests that do not exist; an `if` around them forgives.
  int depth = 0;
  int for_depth = 0;   ///< `loop` may not be assigned inside a for statement.
  int loop_depth = 0;  ///< break and continue need a loop around them.

  Symbol symbol(const std::string& name) {
    const auto [it, added] = symbols.emplace(name, static_cast<Symbol>(names.size()));
    if (added) names.push_back(name);
    return it->second;
  }
};

/// Counts one level of nesting while it lives.
class Nesting {
 public:
  Nesting(ParseState& state, int line) : state_(state) {
    if (++state_.depth > kMaxParseDepth) {
      --state_.depth;
      throw Failure(ErrorCode::kUnsupported, "nesting of more than " + std::to_string(kMaxParseDepth) + " levels",
                    line);
    }
  }
  ~Nesting() { --state_.depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ParseState& state_;
};

}  // namespace monograph::jinja
