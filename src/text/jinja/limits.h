// How much a template may do before it is stopped: templates and conversations come from outside.
#pragma once
#include <cstdint>

namespace monograph::jinja {

constexpr int kMaxSourceBytes = 4 << 20;
constexpr int kMaxParseDepth = 100;     ///< Nested parentheses, blocks and unary operators.
constexpr int kMaxTreeDepth = 300;      ///< Levels of one expression tree (a + b + c ... is one level each).
constexpr int kMaxEvaluateDepth = 700;  ///< Expressions, blocks and macro calls inside one another.
constexpr int kMaxValueDepth = 200;     ///< Lists and dictionaries inside one another, when walked.
constexpr int kMaxRange = 100'000;      ///< Items of range(), as in Jinja's sandbox.
constexpr std::int64_t kMaxSteps = 20'000'000;
constexpr std::int64_t kMaxHeapBytes = std::int64_t{512} << 20;   ///< Everything made during one rendering.
constexpr std::int64_t kMaxOutputBytes = std::int64_t{64} << 20;  ///< The prompt, and any single string.

}  // namespace monograph::jinja
