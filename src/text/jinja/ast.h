// A parsed template: expressions and statements, as the parser builds them and the interpreter walks them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace monograph::jinja {

/// A variable's name, as its number in the template's table of names.
using Symbol = int;

enum class ExprKind {
  kConstant,     // constant
  kName,         // symbol
  kTuple,        // kids
  kList,         // kids
  kDict,         // kids: key, value, key, value ...
  kAttribute,    // kids[0] . name
  kSubscript,    // kids[0] [ kids[1] ]
  kSlice,        // kids[0] : kids[1] : kids[2], absent parts null; only as the key of a subscript
  kCall,         // kids[0] ( call )
  kFilter,       // kids[0] | name ( call ); kids[0] null at the head of a filter block
  kTest,         // kids[0] is name ( call )
  kConditional,  // kids[1] if kids[0] else kids[2]; kids[2] may be null
  kOr,
  kAnd,  // kids[0], kids[1]
  kNot,
  kNegate,
  kPlus,     // kids[0]
  kCompare,  // kids[0] compares[0] kids[1] compares[1] kids[2] ...
  kConcat,   // kids joined by ~
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,         // kids[0], kids[1]
  kNamespaceRef,  // symbol . name, only as a target of set
};

enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// (a, b, key=c, *list, **dict)
struct CallNode {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int depth = 1;  ///< Levels below and with this one; bounded, because walking it recurses.
  Symbol symbol = -1;
  Native native = nullptr;  ///< The filter or test that `name` means; null: unknown, fails when reached.
  Value constant;
  std::string name;
  std::vector<ExprPtr> kids;
  std::vector<CompareOp> compares;
  std::unique_ptr<CallNode> call;
};

enum class StmtKind {
  kText,         // text
  kOutput,       // expr
  kIf,           // branches; the last may have no condition
  kFor,          // target in expr [if condition] : body, otherwise
  kSet,          // target = expr
  kSetBlock,     // target, expr: filter or null, body
  kWith,         // assignments, body
  kMacro,        // macro
  kCallBlock,    // expr: the call; macro: the block as caller()
  kFilterBlock,  // expr: filter chain, body
  kGeneration,   // body, in a scope of its own
  kBreak,
  kContinue,
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

struct Branch {
  ExprPtr condition;
  Block body;
};

/// A macro, or the body of a call block.
struct MacroNode {
  std::string name;
  Symbol symbol = -1;
  std::vector<Symbol> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  ///< Of the last parameters.
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  bool recursive = false;
  TextPtr text;
  ExprPtr target, expr, condition;
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
  std::vector<Branch> branches;
  Block body, otherwise;
  std::unique_ptr<MacroNode> macro;
};

struct Template {
  Block body;
  std::vector<std::string> names;                                                        ///< By Symbol.
  Symbol loop_symbol = -1, caller_symbol = -1, kwargs_symbol = -1, varargs_symbol = -1;  ///< -1: never mentioned.
};

}  // namespace monograph::jinja
