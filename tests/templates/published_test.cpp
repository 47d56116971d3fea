// Every published chat template with every conversation, against jinja2 in transformers' settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "monograph/error.h"
#include "tests/support/template_golden.h"

namespace monograph {
namespace {

const std::string kFolder = std::string(MONOGRAPH_SOURCE_DIR) + "/.cache/test-data/templates/";

std::set<std::string> names_in_folder() {
  std::set<std::string> names;
  if (std::filesystem::exists(kFolder))
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) names.insert(entry.path().filename());
  return names;
}

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
    } else {
      EXPECT_THAT(error.what(), testing::MatchesRegex("chat template, line [0-9]+: [ -~]+"));
    }
    ++counts.n_raised;
  }
}

TEST(PublishedTemplates, EqualJinja2) {
  const auto golden_file = TemplateValue::parse(golden::template_golden("published.json"));
  const auto conversations = TemplateValue::parse(golden::template_golden("conversations.json"));
  ASSERT_GE(conversations.size(), 12u);
  std::set<std::string> names;
  for (const auto& [name, entry] : golden_file["templates"].items()) names.insert(name);
  ASSERT_EQ(names_in_folder(), names) << kFolder << " is not what tools/fetch_test_data.py fetches";
  int n_templates = 0;
  Counts all;
  for (const auto& [name, entry] : golden_file["templates"].items()) {
    SCOPED_TRACE(name);
    const std::string source = golden::read_whole(kFolder + name);
    ASSERT_EQ(golden::hash_of(source), entry["source"].get<std::string>()) << "another version of the template";
    try {
      const ChatTemplate chat(source);
      ++n_templates;
      ASSERT_EQ(entry["results"].size(), conversations.size());
      for (const auto& [conversation, expected] : entry["results"].items()) {
        SCOPED_TRACE(conversation);
        check(chat, conversations[conversation], expected, all);
      }
    } catch (const Error& error) {
      std::cout << name << ": " << error.what() << "\n";
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_THAT(error.what(), testing::MatchesRegex("chat template, line [0-9]+: [ -~]+ is not supported"));
    }
  }
  std::cout << n_templates << " templates, " << conversations.size() << " conversations: " << all.n_rendered
            << " rendered, " << all.n_raised << " raised as jinja2 did\n";
  EXPECT_GE(n_templates, 55);
}

// None of them uses what cannot be done here, so that stands on a last line of its own.
TEST(PublishedTemplates, RefusalsNameTheConstructAndItsLine) {
  const auto names = names_in_folder();
  ASSERT_GE(names.size(), 55u) << "run tools/fetch_test_data.py";
  for (const std::string& name : names) {
    const std::string source = golden::read_whole(kFolder + name) + "{# #}\n";
    const auto line = 1 + std::count(source.begin(), source.end(), '\n');
    for (const auto& [construct, named] : {std::pair{"{% include 'x' %}", "{% include %}"},
                                           {"{% block a %}{% endblock %}", "{% block %}"},
                                           {"{% import 'x' as y %}", "{% import %}"},
                                           {"{{ '\\N{DASH}' }}", "the string escape \\N{...}"}}) {
      try {
        const ChatTemplate chat(source + construct);
        ADD_FAILURE() << name << ": " << construct << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << name;
        EXPECT_EQ(error.what(), "chat template, line " + std::to_string(line) + ": " + named + " is not supported")
            << name;
      }
    }
  }
}

}  // namespace
}  // namespace monograph
