// Requests that ask for something impossible, unknown or unsupported: 400 that names the field, and nothing disturbed.
#include <set>

#include "tests/server/support/server_fixture.h"

namespace monograph::test {
namespace {

struct Row {
  const char* body;   ///< Members beside the prompt.
  const char* param;  ///< What the error names.
};

class BadRequests : public ServerTest {
 protected:
  BadRequests() { engine.script = answer("ok"); }

  void expect_refused(const Answer& answer, const std::string& param, const std::string& body) {
    ASSERT_EQ(answer.status, 400) << body << "\n" << answer.body;
    ASSERT_TRUE(is_valid_utf8(answer.body)) << body;
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    if (param.empty())
      EXPECT_TRUE(error["param"].is_null()) << answer.body;
    else
      EXPECT_EQ(error["param"], param) << body << "\n" << answer.body;
    EXPECT_FALSE(error["message"].get<std::string>().empty());
  }
  void expect_completion_refused(const std::string& members, const std::string& param) {
    const std::string body = R"({"prompt":"hi",)" + members + "}";
    expect_refused(complete(body), param, body);
  }
  void expect_chat_refused(const std::string& members, const std::string& param) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],)" + members + "}";
    expect_refused(chat(body), param, body);
  }
  void expect_whole_refused(const std::string& body, const std::string& param) {
    expect_refused(complete(body), param, body);
  }
};

// Values out of range or of the wrong kind.
constexpr Row kBothRoutes[] = {
    {R"("temperature":5)", "temperature"},
    {R"("temperature":-0.1)", "temperature"},
    {R"("temperature":"hot")", "temperature"},
    {R"("temperature":[1])", "temperature"},
    {R"("temperature":true)", "temperature"},
    {R"("top_p":0)", "top_p"},
    {R"("top_p":1.1)", "top_p"},
    {R"("top_p":-1)", "top_p"},
    {R"("min_p":2)", "min_p"},
    {R"("min_p":-0.5)", "min_p"},
    {R"("frequency_penalty":100)", "frequency_penalty"},
    {R"("presence_penalty":-2.5)", "presence_penalty"},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("repetition_penalty":11)", "repetition_penalty"},
    {R"("max_tokens":"5")", "max_tokens"},
    {R"("max_tokens":1.5)", "max_tokens"},
    {R"("max_tokens":0)", "max_tokens"},
    {R"("max_tokens":-1)", "max_tokens"},
    {R"("max_tokens":-2147483648)", "max_tokens"},
    {R"("max_tokens":2147483648)", "max_tokens"},
    {R"("max_tokens":9223372036854775808)", "max_tokens"},
    {R"("max_tokens":1e300)", "max_tokens"},
    {R"("min_tokens":-1)", "min_tokens"},
    {R"("min_tokens":9223372036854775808)", "min_tokens"},
    {R"("min_tokens":10,"max_tokens":5)", "min_tokens"},
    {R"("top_k":-2)", "top_k"},
    {R"("top_k":2147483648)", "top_k"},
    {R"("top_k":1.5)", "top_k"},
    {R"("seed":-1)", "seed"},
    {R"("seed":"x")", "seed"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":18446744073709551616)", "seed"},
    {R"("n":0)", "n"},
    {R"("n":-1)", "n"},
    {R"("n":1.5)", "n"},
    {R"("n":1000000)", "n"},
    {R"("n":2147483648)", "n"},
    {R"("n":129)", "n"},
    {R"("stop":5)", "stop"},
    {R"("stop":"")", "stop"},
    {R"("stop":[""])", "stop[0]"},
    {R"("stop":["a",5])", "stop[1]"},
    {R"("stop":[null])", "stop[0]"},
    {R"("stop":{})", "stop"},
    {R"("stop_token_ids":[null])", "stop_token_ids[0]"},
    {R"("stop_token_ids":["5"])", "stop_token_ids[0]"},
    {R"("stop_token_ids":[1,1.5])", "stop_token_ids[1]"},
    {R"("stop_token_ids":{})", "stop_token_ids"},
    {R"("stop_token_ids":"x")", "stop_token_ids"},
    {R"("stop_token_ids":[300])", "stop_token_ids[0]"},
    {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
    {R"("logit_bias":{"300":5})", "logit_bias"},
    {R"("logit_bias":{"-1":5})", "logit_bias"},
    {R"("logit_bias":{"abc":1})", "logit_bias"},
    {R"("logit_bias":{"99999999999":1})", "logit_bias"},
    {R"("logit_bias":{"":1})", "logit_bias"},
    {R"("logit_bias":{"5":"x"})", "logit_bias.5"},
    {R"("logit_bias":{"5":101})", "logit_bias.5"},
    {R"("logit_bias":[1])", "logit_bias"},
    {R"("logit_bias":{"5":1e400})", "logit_bias.5"},
    {R"("ignore_eos":1)", "ignore_eos"},
    {R"("stream":"yes")", "stream"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
    {R"("stream":true,"stream_options":true)", "stream_options"},
    {R"("skip_special_tokens":"no")", "skip_special_tokens"},
    {R"("cache_salt":5)", "cache_salt"},
    {R"("aux_info":"yes")", "aux_info"},
    {R"("model":5)", "model"},
    {R"("n":2,"n":3)", ""},
    // Known and not honoured: a request that would be answered wrongly is refused.
    {R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"objekt"}}}])", "tools"},
    {R"("tools":[{"type":"function","function":{"name":"f","parameters":{"pattern":"("}}}])", "tools"},
    {R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":5}}}])", "tools"},
    {R"("tool_choice":"required")", "tool_choice"},
    {R"("functions":[{}])", "functions"},
    {R"("response_format":{"type":"json_object"})", "response_format"},
    {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"(?<=x)*"}}})",
     "response_format"},
    {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"a{9999999}"}}})",
     "response_format"},
    {R"("response_format":"text")", "response_format"},
    {R"("guided_json":{"type":"object"})", "guided_json"},
    {R"("guided_regex":"+")", "guided_regex"},
    {R"("guided_choice":["a"])", "guided_choice"},
    {R"("guided_grammar":"root ::= x")", "guided_grammar"},
    {R"("structured_outputs":{"choice":["a"]})", "structured_outputs"},
    {R"("grammar":"root ::= x")", "grammar"},
    {R"("json_schema":{})", "json_schema"},
    {R"("prompt_logprobs":0)", "prompt_logprobs"},
    {R"("allowed_token_ids":[1])", "allowed_token_ids"},
    {R"("bad_words":["x"])", "bad_words"},
    {R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens"},
    {R"("use_beam_search":true)", "use_beam_search"},
    {R"("prompt_embeds":"AAAA")", "prompt_embeds"},
    {R"("priority":5)", "priority"},
    {R"("echo":true)", "echo"},
    {R"("store":true)", "store"},
    {R"("reasoning_effort":"high")", "reasoning_effort"},
};

// SA16, SA06, ST08, SE12, AP04, OL01: kBothRoutes.
TEST_F(BadRequests, ValuesOnBothRoutes) {
  start();
  for (const Row& row : kBothRoutes) {
    expect_completion_refused(row.body, row.param);
    expect_chat_refused(row.body, row.param);
  }
  EXPECT_EQ(engine.n_submitted(), 0u);
  expect_alive();
}

// There are no adapters: whoever asks for one gets no answer of the base model instead.
TEST_F(BadRequests, AdaptersCG04) {
  start();
  expect_completion_refused(R"("lora_name":"poet")", "lora_name");
  expect_chat_refused(R"("lora_name":"poet")", "lora_name");
  EXPECT_EQ(engine.n_submitted(), 0u);
  expect_alive();
}

TEST_F(BadRequests, CompletionsOnly) {
  start();
  for (const Row& row :
       {Row{R"("logprobs":21)", "logprobs"}, Row{R"("logprobs":-1)", "logprobs"}, Row{R"("logprobs":true)", "logprobs"},
        Row{R"("best_of":1000000)", "best_of"}, Row{R"("best_of":2)", "best_of"}, Row{R"("best_of":0)", "best_of"},
        Row{R"("suffix":"x")", "suffix"}, Row{R"("max_tokens":0,"echo":true,"logprobs":1)", "max_tokens"},
        Row{R"("add_special_tokens":1)", "add_special_tokens"}})
    expect_completion_refused(row.body, row.param);
}

TEST_F(BadRequests, ChatOnly) {
  start();
  for (const Row& row : {Row{R"("logprobs":1)", "logprobs"}, Row{R"("top_logprobs":5)", "top_logprobs"},
                         Row{R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
                         Row{R"("max_completion_tokens":0)", "max_completion_tokens"},
                         Row{R"("continue_final_message":true)", "continue_final_message"},
                         Row{R"("chat_template":"x")", "chat_template"},
                         Row{R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
                         Row{R"("modalities":["text","audio"])", "modalities"}})
    expect_chat_refused(row.body, row.param);
}

TEST_F(BadRequests, NeutralValuesAreFine) {
  start();
  const std::string common =
      R"("tools":null,"tool_choice":"none","functions":[],"response_format":{"type":"text"},"echo":false,"suffix":"",
        "best_of":1,"prompt_logprobs":null,"guided_json":null,"user":"u","metadata":{"a":"b"},"store":false,"stop":null,
        "stop_token_ids":[],"logit_bias":{},"n":1,"seed":null,"top_k":-1,"min_p":0,"max_tokens":16.0,"logprobs":null,
        "priority":0,"service_tier":"auto","parallel_tool_calls":true,"stream_options":null})";
  EXPECT_EQ(complete(R"({"prompt":"hi",)" + common).status, 200);
  EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":"hi"}],)" + common).status, 200);
  EXPECT_EQ(complete(R"({"prompt":"hi","n":3,"best_of":3})").status, 200);
}

// AP01: an empty prompt is refused, by this rule for each of its shapes.
TEST_F(BadRequests, PromptsAP01) {
  start();
  for (const Row& row :
       {Row{R"({})", "prompt"}, Row{R"({"prompt":null})", "prompt"}, Row{R"({"prompt":""})", "prompt"},
        Row{R"({"prompt":[]})", "prompt"}, Row{R"({"prompt":[""]})", "prompt[0]"},
        Row{R"({"prompt":[[]]})", "prompt[0]"}, Row{R"({"prompt":[[1],[]]})", "prompt[1]"},
        Row{R"({"prompt":5})", "prompt"}, Row{R"({"prompt":{}})", "prompt"}, Row{R"({"prompt":true})", "prompt"},
        Row{R"({"prompt":[1,"a"]})", "prompt[1]"}, Row{R"({"prompt":["a",1]})", "prompt[1]"},
        Row{R"({"prompt":[1,300]})", "prompt[1]"}, Row{R"({"prompt":[-1]})", "prompt[0]"},
        Row{R"({"prompt":[1.5]})", "prompt[0]"}, Row{R"({"prompt":[[1],[2,9223372036854775808]]})", "prompt[1][1]"},
        Row{R"({"prompt":[null]})", "prompt[0]"}, Row{R"({"prompt":[["a"]]})", "prompt[0][0]"}})
    expect_whole_refused(row.body, row.param);
  std::string many = R"({"prompt":["a")";
  for (int i = 0; i < 256; ++i) many += R"(,"a")";
  expect_whole_refused(many + "]}", "prompt");
  std::string choices = R"({"n":128,"prompt":["a")";
  for (int i = 0; i < 8; ++i) choices += R"(,"a")";
  expect_whole_refused(choices + "]}", "n");
  EXPECT_EQ(engine.n_submitted(), 0u);
  expect_alive();
}

TEST_F(BadRequests, MessagesAP01) {
  start();
  for (const Row& row :
       {Row{R"({})", "messages"}, Row{R"({"messages":[]})", "messages"}, Row{R"({"messages":"hi"})", "messages"},
        Row{R"({"messages":[5]})", "messages[0]"}, Row{R"({"messages":[{"content":"x"}]})", "messages[0].role"},
        Row{R"({"messages":[{"role":"","content":"x"}]})", "messages[0].role"},
        Row{R"({"messages":[{"role":5,"content":"x"}]})", "messages[0].role"},
        Row{R"({"messages":[{"role":"user"}]})", "messages[0].content"},
        Row{R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
        Row{R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
        Row{R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
            "messages[0].content[0].type"},
        Row{R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
        Row{R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content[0]"},
        Row{R"({"messages":[{"role":"assistant","tool_calls":[5]}]})", "messages[0].tool_calls[0]"}})
    expect_refused(chat(row.body), row.param, row.body);
  // Content may be empty: the template still makes a prompt.
  EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":""}]})").status, 200);
  engine.info_.has_chat_template = false;
  expect_refused(chat(R"({"messages":[{"role":"user","content":"hi"}]})"), "messages", "no template");
}

TEST_F(BadRequests, BodiesThatAreNoJsonTK16) {
  start();
  for (const std::string body :
       {"", "{", "[]", "5", "null", "\"x\"", "{\"prompt\":\"\xff\xfe\"}", "{\"model\":\"\xc3\x28\"}",
        "{\"prompt\":\"\xc4\xe3\xba\xc3\"}", "{\"prompt\":\"a\"} x", "{'prompt':'a'}", "{\"prompt\":\"a\",}"})
    expect_whole_refused(body, "");
  // A name from the request comes back in the message: whole, as UTF-8.
  const Answer answer = complete("{\"prompt\":\"a\",\"model\":\"\\u00e9\\ud83d\\ude00\"}");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.json()["error"]["code"], "model_not_found");
  EXPECT_NE(answer.json()["error"]["message"].get<std::string>().find("é😀"), std::string::npos);
  expect_alive();
}

TEST_F(BadRequests, DeepNestingAP09) {
  start();
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += '[';
  expect_whole_refused(R"({"prompt":"a","tools":)" + deep, "");
  std::string parentheses(60'000, '(');
  expect_whole_refused(R"({"prompt":"a","grammar":")" + parentheses + "\"}", "grammar");
  expect_alive();
}

TEST_F(BadRequests, ManyBiasesSA06) {
  start();
  std::string body = R"({"prompt":"a","logit_bias":{)";
  for (int i = 0; i < 100'000; ++i) body += (i > 0 ? "," : "") + json_string(std::to_string(i)) + ":1";
  expect_whole_refused(body + "}}", "logit_bias");
  expect_alive();
}

TEST_F(BadRequests, PromptBeyondTheContextAP06) {
  start();
  const auto body = [](int n_tokens) {
    std::string ids = "1";
    for (int i = 1; i < n_tokens; ++i) ids += ",1";
    return "{\"prompt\":[" + ids + "]}";
  };
  EXPECT_EQ(complete(body(63)).status, 200);
  for (const int n : {64, 65, 640}) {
    const Answer refused = complete(body(n));
    expect_refused(refused, "prompt", "long");
    const Json error = refused.json()["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["n_prompt_tokens"], n);
    EXPECT_EQ(error["n_ctx"], 64);
    EXPECT_NE(error["message"].get<std::string>().find(std::to_string(n)), std::string::npos);
    EXPECT_NE(error["message"].get<std::string>().find("64"), std::string::npos);
  }
}

TEST_F(BadRequests, UnknownFieldsAreNamed) {
  start();
  const Answer answer = complete("{\"prompt\":\"a\",\"frobnicate\":1,\"we\\r\\nird: x\":2,\"messages\":[]}");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("x-monograph-ignored-fields"), "frobnicate, we??ird??x, messages");
  EXPECT_NE(logged().find("request fields ignored: frobnicate"), std::string::npos);
  for (int i = 0; i < 10; ++i) complete(R"({"prompt":"a","frobnicate":1})");
  int n_lines = 0;
  for (std::size_t at = 0; (at = logged().find("ignored", at)) != std::string::npos; ++at) ++n_lines;
  EXPECT_EQ(n_lines, 4);  // The 1st, 2nd, 4th and 8th of eleven.
  EXPECT_EQ(complete(R"({"prompt":"a"})").header("x-monograph-ignored-fields"), "");
}

TEST_F(BadRequests, ErrorsOfTheEngine) {
  start();
  struct Case {
    ErrorCode code;
    int status;
    const char* type;
  };
  for (const Case& one : {Case{ErrorCode::kInvalidArgument, 400, "invalid_request_error"},
                          Case{ErrorCode::kTryLater, 429, "rate_limit_error"},
                          Case{ErrorCode::kUnavailable, 503, "service_unavailable_error"},
                          Case{ErrorCode::kOutOfMemory, 503, "service_unavailable_error"},
                          Case{ErrorCode::kInternal, 500, "server_error"}}) {
    engine.on_submit = [&](const Request&) { throw Error(one.code, "because \xff", "field"); };
    const Answer answer = complete(R"({"prompt":"a","stream":true})");
    EXPECT_EQ(answer.status, one.status);
    EXPECT_EQ(answer.json()["error"]["type"], one.type);
    EXPECT_EQ(answer.json()["error"]["param"], "field");
    EXPECT_EQ(answer.json()["error"]["message"], "because \uFFFD");
    EXPECT_EQ(answer.header("retry-after"), one.status == 429 || one.status == 503 ? "1" : "");
  }
  engine.on_submit = [&](const Request&) { throw std::runtime_error("surprise"); };
  EXPECT_EQ(complete(R"({"prompt":"a"})").status, 500);
  engine.on_submit = [&](const Request&) { throw std::bad_alloc(); };
  EXPECT_EQ(complete(R"({"prompt":"a"})").status, 503);
}

// A list whose later prompt is refused must leave nothing running.
TEST_F(BadRequests, PartOfAListFails) {
  engine.script = {};
  start();
  engine.on_submit = [&](const Request&) {
    if (engine.n_submitted() == 2) throw Error(ErrorCode::kTryLater, "full");
  };
  EXPECT_EQ(complete(R"({"prompt":["a","b","c"]})").status, 429);
  EXPECT_TRUE(engine.channel(0)->wait_cancelled());
  EXPECT_TRUE(engine.channel(1)->wait_cancelled());
}

}  // namespace
}  // namespace monograph::test
