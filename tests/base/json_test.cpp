// Strict JSON: what is refused, in which words, and at what cost.
#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace monograph {
namespace {

std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

std::string why(const std::string& text, const JsonLimits& limits = {}) {
  std::string message;
  try {
    parse_json(text, "body", limits);
  } catch (const Error& error) {
    message = error.what();
  }
  std::string sorted_message;
  try {
    parse_sorted_json(text, "body", limits);
  } catch (const Error& error) {
    sorted_message = error.what();
  }
  EXPECT_EQ(message, sorted_message);
  EXPECT_TRUE(is_valid_utf8(message)) << message;
  return message;
}

TEST(Json, KeepsOrderAndValues) {
  const std::string text =
      R"({"z":1,"a":[-2,3.5,true,null,"\u00e9\ud83d\ude00"],"m":{"b":{},"a":18446744073709551615}})";
  const Json json = parse_json(text, "body");
  EXPECT_EQ(json.dump(), R"({"z":1,"a":[-2,3.5,true,null,"é😀"],"m":{"b":{},"a":18446744073709551615}})");
  EXPECT_EQ(parse_sorted_json(text, "body").dump(),
            R"({"a":[-2,3.5,true,null,"é😀"],"m":{"a":18446744073709551615,"b":{}},"z":1})");
}

TEST(Json, MalformedTextsAreRefused) {
  for (const char* text :
       {"",        " ",           "{",        "}",        "[1,]",    "{\"a\":1,}", "{a:1}", "{'a':1}", "nul",
        "1 2",     "[1] x",       "NaN",      "Infinity", "01",      "+1",         "1.",    ".5",      "1e",
        "\"\\x\"", "\"\\ud800\"", "\"a\nb\"", "\"abc",    "// c\n1", "{\"a\"}",    "[}"})
    EXPECT_NE(why(text), "") << text;
  EXPECT_EQ(why("[1, 2"), "body: not valid JSON at byte 6");
}

// SA06: the place is named, so that the answer to the client can name its field.
TEST(Json, NumbersBeyondDoubleNameTheirPlaceSA06) {
  const auto place = [](const std::string& text) {
    std::string field;
    try {
      parse_json(text, "body");
    } catch (const Error& error) {
      field = error.field();
    }
    const std::string wanted = "the number of `" + field + "` is out of range";
    EXPECT_NE(why(text).find(wanted), std::string::npos) << why(text);
    return field;
  };
  EXPECT_EQ(place(R"({"a":1,"temperature":1e400})"), "temperature");
  EXPECT_EQ(place(R"({"logit_bias":{"4":1,"5":-1e400}})"), "logit_bias.5");
  EXPECT_EQ(place(R"({"messages":[{"a":[]},{"b":{"c":[0,[],1e999]}}]})"), "messages[1].b.c[2]");
  EXPECT_EQ(place("[1, 1e400]"), "[1]");
  EXPECT_EQ(why("1e400"), "body: not valid JSON at byte 5: a number is out of range");
}

TEST(Json, IllFormedUtf8IsRefusedTK16) {
  for (const char* bytes :
       {"\xff\xfe", "\xc3\x28", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8", "\xc4\xe3\xba\xc3"}) {
    const std::string text = std::string("{\"prompt\":\"") + bytes + "\"}";
    EXPECT_NE(why(text).find("not valid JSON at byte"), std::string::npos) << text;
  }
}

TEST(Json, DuplicateKeys) {
  EXPECT_EQ(why(R"({"a":1,"b":2,"a":3})"), "body: key \"a\" stands twice in one object");
  EXPECT_EQ(why(R"([{"a":1},{"a":2}])"), "");
  JsonLimits limits;
  limits.allow_duplicate_keys = true;
  EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3,"c":4,"b":5})", "body", limits).dump(), R"({"a":3,"c":4,"b":5})");
  EXPECT_EQ(parse_sorted_json(R"({"a":1,"b":2,"a":3})", "body", limits).dump(), R"({"a":3,"b":2})");
}

TEST(Json, DepthIsBoundedAP09) {
  EXPECT_EQ(why(repeat("[", 128) + repeat("]", 128)), "");
  EXPECT_EQ(why(repeat("[", 129) + repeat("]", 129)), "body: nested deeper than 128 levels");
  EXPECT_EQ(why(repeat("[", 1'000'000)), "body: nested deeper than 128 levels");
  EXPECT_EQ(why(repeat("{\"a\":", 1'000'000)), "body: nested deeper than 128 levels");
}

TEST(Json, SizeAndValuesAreBounded) {
  JsonLimits limits;
  limits.max_values = 100;
  limits.max_bytes = 1000;
  limits.code = ErrorCode::kUnreadableFile;
  EXPECT_EQ(why("[" + repeat("1,", 98) + "1]", limits), "");
  EXPECT_EQ(why("[" + repeat("1,", 99) + "1]", limits), "body: more than 100 values");
  EXPECT_EQ(why(repeat(" ", 1001), limits), "body: longer than 1000 bytes");
  try {
    parse_json("x", "f", limits);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnreadableFile);
  }
}

// A hundred thousand keys in one object: a search per key would take minutes.
TEST(Json, ManyKeysTakeLinearTimeSA06) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += json_string(std::to_string(i)) + ":1,";
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "body").size(), 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Json, StringsAreEscapedAndMadeValid) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t\x01\x7f"
                        "é😀"),
            "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u007fé😀\"");
  EXPECT_EQ(json_string("\xff\xc3(\xf0\x9f\x98"), "\"\uFFFD\uFFFD(\uFFFD\uFFFD\uFFFD\"");
  for (int lead = 0; lead < 256; ++lead)
    for (int second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(lead), static_cast<char>(second), 'x'};
      const std::string quoted = json_string(bytes);
      const std::string read = parse_json(quoted, "text").get<std::string>();
      EXPECT_EQ(read == bytes, is_valid_utf8(bytes));
    }
}

}  // namespace
}  // namespace monograph
