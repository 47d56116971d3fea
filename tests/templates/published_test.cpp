// Every published chat template with every conversation, against jinja2 in transformers' settings.
#include <gtest/gtest.h>

#include <iostream>

#include "monograph/error.h"
#include "tests/support/template_golden.h"

namespace monograph {
namespace {

const std::string kFolder = std::string(MONOGRAPH_SOURCE_DIR) + "/.cache/test-data/templates/";

struct Counts {
  int n_rendered = 0, n_raised = 0;
};

void check(const ChatTemplate& chat, const TemplateValue& variables, const TemplateValue& expected, Counts& counts) {
  const bool should_render = expected.contains("out") || expected.contains("hash");
  try {
    const std::string text = chat.render(variables, golden::golden_date());
    ASSERT_TRUE(should_render) << "rendered, jinja2 gave " << expected;
    if (expected.contains("out")) {
      EXPECT_EQ(text, expected["out"].get<std::string>());
    }
    if (expected.contains("hash")) {
      EXPECT_EQ(text.size(), expected["bytes"].get<std::size_t>());
      EXPECT_EQ(golden::hash_of(text), expected["hash"].get<std::string>());
    }
    ++counts.n_rendered;
  } catch (const Error& error) {
    ASSERT_FALSE(should_render) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    if (expected.contains("raise")) {
      EXPECT_EQ(error.what(), expected["raise"].get<std::string>());
    }
    ++counts.n_raised;
  }
}

TEST(PublishedTemplates, EqualJinja2) {
  const auto golden_file = TemplateValue::parse(golden::template_golden("published.json"));
  const auto conversations = TemplateValue::parse(golden::template_golden("conversations.json"));
  ASSERT_GE(conversations.size(), 12u);
  int n_templates = 0;
  Counts all;
  for (const auto& [name, entry] : golden_file["templates"].items()) {
    SCOPED_TRACE(name);
    std::string source;
    try {
      source = golden::read_whole(kFolder + name);
    } catch (const std::exception&) {
      FAIL() << kFolder << name << " is missing: run tools/fetch_test_data.py";
    }
    ASSERT_EQ(golden::hash_of(source), entry["source"].get<std::string>()) << "another version of the template";
    try {
      const ChatTemplate chat(source);
      ++n_templates;
      for (const auto& [conversation, expected] : entry["results"].items()) {
        SCOPED_TRACE(conversation);
        check(chat, conversations[conversation], expected, all);
      }
    } catch (const Error& error) {
      std::cout << name << ": " << error.what() << "\n";
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    }
  }
  std::cout << n_templates << " templates, " << conversations.size() << " conversations: " << all.n_rendered
            << " rendered, " << all.n_raised << " raised as jinja2 did\n";
  EXPECT_GE(n_templates, 55);
}

}  // namespace
}  // namespace monograph
