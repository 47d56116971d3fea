// Small templates and random expressions against what jinja2 gave for them.
#include <gtest/gtest.h>

#include <sstream>

#include "monograph/error.h"
#include "tests/support/template_golden.h"

namespace monograph {
namespace {

struct Outcome {
  std::string text;   ///< The output, or the message of the failure.
  std::string error;  ///< "" if it rendered; else as the goldens name it.
};

Outcome render(const std::string& source, const TemplateValue& variables) {
  try {
    const ChatTemplate chat(source);
    try {
      return {chat.render(variables, golden::golden_date()), ""};
    } catch (const Error& error) {
      return {error.what(), error.code() == ErrorCode::kUnsupported ? "refused" : "runtime"};
    }
  } catch (const Error& error) {
    return {error.what(), error.code() == ErrorCode::kUnsupported ? "refused" : "syntax"};
  }
}

TEST(JinjaGolden, SmallTemplates) {
  const auto file = TemplateValue::parse(golden::template_golden("snippets.json"));
  ASSERT_GT(file["cases"].size(), 400u);
  for (const auto& one : file["cases"]) {
    const auto source = one["template"].get<std::string>();
    const Outcome outcome = render(source, file["variables"]);
    if (one.contains("out")) {
      EXPECT_EQ(outcome.error, "") << source << "\n" << outcome.text;
      EXPECT_EQ(outcome.text, one["out"].get<std::string>()) << source;
    } else if (one.contains("raise")) {
      EXPECT_EQ(outcome.text, one["raise"].get<std::string>()) << source;
      EXPECT_EQ(outcome.error, "runtime") << source;
    } else {
      EXPECT_EQ(outcome.error, one["error"].get<std::string>()) << source << "\n" << outcome.text;
      EXPECT_EQ(outcome.text.find("chat template, line "), 0u) << source << "\n" << outcome.text;
      EXPECT_EQ(outcome.text.find('\n'), std::string::npos) << source << "\n" << outcome.text;
    }
  }
}

TEST(JinjaGolden, TenThousandRandomExpressions) {
  const auto variables = TemplateValue::parse(golden::template_golden("snippets.json"))["variables"];
  std::istringstream lines(golden::template_golden("expressions.txt"));
  std::string line;
  std::getline(lines, line);  // versions and seed
  int n_cases = 0, n_refused = 0;
  while (std::getline(lines, line)) {
    const std::string expected = line.substr(0, line.find(' ')), expression = line.substr(line.find(' ') + 1);
    const Outcome outcome = render("{{ " + expression + " }}", variables);
    ++n_cases;
    if (outcome.error == "refused") {
      ++n_refused;
      continue;
    }
    const std::string found = outcome.error.empty() ? golden::hash_of(outcome.text, 32) : outcome.error;
    EXPECT_EQ(found, expected) << expression << "\n" << outcome.text;
  }
  EXPECT_EQ(n_cases, 10'000);
  EXPECT_LT(n_refused, 100);
}

}  // namespace
}  // namespace monograph
