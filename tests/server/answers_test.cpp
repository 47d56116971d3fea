// Answers in one piece: what the engine is asked, and every shape of a body.
#include "tests/server/support/server_fixture.h"

namespace monograph::test {
namespace {

class Answers : public ServerTest {};

TEST_F(Answers, Completion) {
  engine.script = answer("hé", FinishReason::kLength);
  start();
  const Answer got = complete(R"({"model":"fake","prompt":"abc"})");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.header("content-type"), "application/json");
  EXPECT_EQ(got.header("x-monograph-prefill-status"), "replayed");
  const Json body = got.json();
  EXPECT_EQ(body["id"].get<std::string>().rfind("cmpl-", 0), 0u);
  EXPECT_EQ(body["id"], got.header("x-request-id"));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_TRUE(body["created"].is_number_integer());
  EXPECT_EQ(body["choices"].dump(),
            R"([{"index":0,"text":"hé","logprobs":null,"finish_reason":"length","stop_reason":null,)"
            R"("monograph":{"prefill_cuda_graph_status":"replayed"}}])");
  EXPECT_EQ(body["usage"].dump(),
            R"({"prompt_tokens":4,"completion_tokens":3,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0},)"
            R"("prefill_cuda_graph_status":"replayed"})");
  EXPECT_EQ(body["monograph"].dump(), R"({"prefill_cuda_graph_status":"replayed"})");
}

TEST_F(Answers, Chat) {
  engine.script = answer("hi");
  start();
  const Answer got = chat(
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  EXPECT_EQ(got.status, 200);
  const Json body = got.json();
  EXPECT_EQ(body["id"].get<std::string>().rfind("chatcmpl-", 0), 0u);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"].dump(), R"({"role":"assistant","content":"hi","refusal":null})");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(engine.render_chat(*engine.channel(0)->request.chat), "system:S;user:a\nb;A:");
}

TEST_F(Answers, WhatTheEngineIsAsked) {
  engine.script = answer("x");
  start();
  ASSERT_EQ(
      complete(R"({"prompt":"p","max_tokens":7,"min_tokens":2,"temperature":0.5,"top_p":0.25,"top_k":4,"min_p":0.125,
      "repetition_penalty":1.5,"presence_penalty":0.75,"frequency_penalty":-0.5,"seed":18446744073709551615,"n":2,
      "stop":["END","\n"],"stop_token_ids":[5,6],"logit_bias":{"7":-100,"8":2.5},"ignore_eos":true,
      "skip_special_tokens":false,"include_stop_str_in_output":true,"cache_salt":"salt","logprobs":3,"request_id":"mine"})")
          .status,
      200);
  const Request& request = engine.channel(0)->request;
  const SamplingParams& s = request.sampling;
  EXPECT_EQ(*request.prompt, "p");
  EXPECT_EQ(request.id, "cmpl-mine");
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(s.max_tokens, 7);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_p, 0.25f);
  EXPECT_EQ(s.top_k, 4);
  EXPECT_EQ(s.min_p, 0.125f);
  EXPECT_EQ(s.repetition_penalty, 1.5f);
  EXPECT_EQ(s.presence_penalty, 0.75f);
  EXPECT_EQ(s.frequency_penalty, -0.5f);
  EXPECT_EQ(s.seed, 18446744073709551615u);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"END", "\n"}));
  EXPECT_EQ(s.stop_token_ids, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0f}, {8, 2.5f}}));
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_FALSE(s.skip_special_tokens);
  EXPECT_TRUE(s.include_stop_str_in_output);
  EXPECT_EQ(s.logprobs, 3);
}

TEST_F(Answers, Defaults) {
  engine.script = answer("x");
  start();
  complete(R"({"prompt":"p"})");
  EXPECT_EQ(engine.channel(0)->request.sampling.max_tokens, 16);
  chat(R"({"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(engine.channel(1)->request.sampling.max_tokens, 64);  // As far as the context goes.
  chat(R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"max_completion_tokens":6})");
  EXPECT_EQ(engine.channel(2)->request.sampling.max_tokens, 6);
  complete(R"({"prompt":"p","stop":"one"})");
  EXPECT_EQ(engine.channel(3)->request.sampling.stop, std::vector<std::string>{"one"});
}

TEST_F(Answers, StopsAreTakenAsGivenTK20) {
  engine.script = answer("x");
  start();
  complete("{\"prompt\":\"p\",\"stop\":[\"終わり\",\"\\\\n\",\"é\"]}");
  EXPECT_EQ(engine.channel(0)->request.sampling.stop, (std::vector<std::string>{"終わり", "\\n", "é"}));
}

TEST_F(Answers, SpecialsInPrompts) {
  engine.script = answer("x");
  start();
  EXPECT_EQ(complete(R"({"prompt":"<|im_start|>a"})").json()["usage"]["prompt_tokens"], 14);
  EXPECT_EQ(complete(R"({"prompt":"<|im_start|>a","parse_special":true})").json()["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(complete(R"({"prompt":"ab","add_special_tokens":false})").json()["usage"]["prompt_tokens"], 2);
}

TEST_F(Answers, ChatTemplateVariables) {
  engine.script = answer("x");
  start();
  chat(
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"type":"function",
      "id":"1","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},{"role":"tool","tool_call_id":"1","content":"3"}],
      "add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false}})");
  const Json sent = parse_json(*engine.channel(0)->request.chat, "chat");
  EXPECT_EQ(sent["add_generation_prompt"], false);
  EXPECT_EQ(sent["enable_thinking"], false);
  EXPECT_EQ(sent["messages"][1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(sent["messages"][2]["tool_call_id"], "1");
}

// S-104: three sequences, three statuses; the header says replayed only if all did.
TEST_F(Answers, ThreeStatuses) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"abc","n":3,"aux_info":true})");
  auto channel = engine.channel(0);
  channel->push(end(with_status(token(2, 'c', "c"), PrefillStatus::kReplayed, 2, 2, 3), FinishReason::kStop));
  channel->push(end(with_status(token(0, 'a', "a"), PrefillStatus::kReplayed, 1, 1, 0), FinishReason::kStop));
  channel->push(
      end(with_status(token(1, 'b', "b"), PrefillStatus::kPrefixCacheNotSupported, 3, 1, 2), FinishReason::kLength));
  const Answer got = client.read();
  EXPECT_EQ(got.header("x-monograph-prefill-status"), "prefix_cache_not_supported");
  const Json body = got.json();
  const auto monograph = [&](int i) { return body["choices"][static_cast<std::size_t>(i)]["monograph"].dump(); };
  EXPECT_EQ(
      monograph(0),
      R"({"prefill_cuda_graph_status":"replayed","n_prefill_steps":1,"n_prefill_replays":1,"n_reused_tokens":0})");
  EXPECT_EQ(
      monograph(1),
      R"({"prefill_cuda_graph_status":"prefix_cache_not_supported","n_prefill_steps":3,"n_prefill_replays":1,"n_reused_tokens":2})");
  EXPECT_EQ(
      monograph(2),
      R"({"prefill_cuda_graph_status":"replayed","n_prefill_steps":2,"n_prefill_replays":2,"n_reused_tokens":3})");
  EXPECT_EQ(body["monograph"]["prefill_cuda_graph_status"], "prefix_cache_not_supported");
  EXPECT_EQ(body["monograph"]["n_prefill_steps"], 6);
  EXPECT_EQ(body["usage"]["prefill_cuda_graph_status"], "prefix_cache_not_supported");
  EXPECT_EQ(body["usage"]["n_prefill_replays"], 4);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(body["choices"][1]["text"], "b");
}

// S-104: the plain route has the fields of completions, ids without asking, no envelope, and the same three places of
// the status.
TEST_F(Answers, S104_PlainGenerate) {
  start();
  Client client(port());
  client.post("/generate", R"({"prompt":"abc","n":2,"max_tokens":4,"aux_info":true,"request_id":"x"})");
  auto channel = engine.channel(0);
  channel->push(end(with_status(token(1, 'b', "b"), PrefillStatus::kReplayed, 1, 1, 2), FinishReason::kLength));
  channel->push(end(with_status(token(0, 'a', "a"), PrefillStatus::kInputTokensExceedCaptureLimit, 1, 0, 2),
                    FinishReason::kStop));
  const Answer got = client.read();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.header("x-monograph-prefill-status"), "input_tokens_exceed_capture_limit");
  EXPECT_EQ(
      got.body,
      R"({"id":"gen-x","outputs":[{"index":0,"text":"a","finish_reason":"stop","stop_reason":null,"monograph":)"
      R"({"prefill_cuda_graph_status":"input_tokens_exceed_capture_limit","n_prefill_steps":1,"n_prefill_replays":0,)"
      R"("n_reused_tokens":2},"token_ids":[97]},{"index":1,"text":"b","finish_reason":"length","stop_reason":null,)"
      R"("monograph":{"prefill_cuda_graph_status":"replayed","n_prefill_steps":1,"n_prefill_replays":1,)"
      R"("n_reused_tokens":2},"token_ids":[98]}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6,)"
      R"("prompt_tokens_details":{"cached_tokens":2},"prefill_cuda_graph_status":"input_tokens_exceed_capture_limit",)"
      R"("n_prefill_steps":2,"n_prefill_replays":1,"n_reused_tokens":4},"monograph":{"prefill_cuda_graph_status":)"
      R"("input_tokens_exceed_capture_limit","n_prefill_steps":2,"n_prefill_replays":1,"n_reused_tokens":4}})");
}

TEST_F(Answers, ListsOfPrompts) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":["a","bc"],"n":2,"return_token_ids":true})");
  const auto first = engine.channel(0);
  const auto second = engine.channel(1);
  for (int i = 0; i < 2; ++i) {
    second->push(end(
        with_status(token(i, '3' + i, std::string(1, static_cast<char>('3' + i))), PrefillStatus::kReplayed, 1, 1, 2),
        FinishReason::kStop));
    first->push(end(token(i, '1' + i, std::string(1, static_cast<char>('1' + i))), FinishReason::kStop));
  }
  const Json body = client.read().json();
  for (int i = 0; i < 4; ++i) {
    const Json choice = body["choices"][static_cast<std::size_t>(i)];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["text"], std::to_string(i + 1));
    EXPECT_EQ(choice["token_ids"].dump(), "[" + std::to_string('1' + i) + "]");
    EXPECT_EQ(choice["prompt_token_ids"].dump(), i < 2 ? "[256,97]" : "[256,98,99]");
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
  EXPECT_NE(first->request.id, second->request.id);
}

TEST_F(Answers, ListsOfIds) {
  engine.script = answer("x");
  start();
  EXPECT_EQ(complete(R"({"prompt":[[1,2],[3]]})").json()["choices"].size(), 2u);
  EXPECT_EQ(engine.channel(0)->request.prompt_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(engine.channel(1)->request.prompt_ids, (std::vector<TokenId>{3}));
  EXPECT_EQ(complete(R"({"prompt":[4,5]})").json()["usage"]["prompt_tokens"], 2);
}

TEST_F(Answers, StopReasons) {
  start();
  const auto reason_of = [&](TextEvent event) {
    Client client(port());
    const std::size_t i = engine.n_submitted();
    client.post("/v1/completions", R"({"prompt":"p","stop_token_ids":[9],"return_token_ids":true})");
    engine.channel(i)->push(std::move(event));
    return client.read().json();
  };
  TextEvent by_string = end(token(0, 'a', ""), FinishReason::kStop);
  by_string.matched_stop = "EN\"D";
  EXPECT_EQ(reason_of(by_string)["choices"][0]["stop_reason"], "EN\"D");
  TextEvent by_id = end(TextEvent{}, FinishReason::kStop);
  by_id.token.stop_token = 9;
  const Json stopped = reason_of(by_id);
  EXPECT_EQ(stopped["choices"][0]["stop_reason"], 9);
  EXPECT_EQ(stopped["choices"][0]["text"], "");
  EXPECT_EQ(stopped["choices"][0]["token_ids"].dump(), "[9]");
  EXPECT_EQ(stopped["usage"]["completion_tokens"], 1);
  TextEvent by_eos = end(TextEvent{}, FinishReason::kStop);
  by_eos.token.stop_token = FakeEngine::kEos;
  EXPECT_TRUE(reason_of(by_eos)["choices"][0]["stop_reason"].is_null());
}

TEST_F(Answers, CompletionLogprobs) {
  engine.script = answer("aé");
  start();
  const Json body = complete(R"({"prompt":"p","logprobs":2})").json();
  const Json logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].dump(), R"(["a","bytes:\\xc3","bytes:\\xa9"])");
  EXPECT_EQ(logprobs["token_logprobs"].dump(), "[-0.5,-0.5,-0.5]");
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"a":-0.5,"z":-1.5})");
  EXPECT_EQ(logprobs["top_logprobs"][1].dump(), R"({"bytes:\\xc3":-0.5,"z":-1.5})");
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,1,2]");
  const Json none = complete(R"({"prompt":"p","logprobs":0})").json()["choices"][0]["logprobs"];
  EXPECT_EQ(none["top_logprobs"][0].dump(), R"({"a":-0.5})");
  const Json ids = complete(R"({"prompt":"p","logprobs":1,"return_tokens_as_token_ids":true})").json();
  EXPECT_EQ(ids["choices"][0]["logprobs"]["tokens"][0], "token_id:97");
}

// TK19: part of a character in a token; the joined bytes are those of the text.
TEST_F(Answers, ChatLogprobsTK19) {
  engine.script = answer("a😀");
  start();
  const Json body = chat(R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":3})").json();
  std::string joined;
  for (const Json& entry : body["choices"][0]["logprobs"]["content"]) {
    EXPECT_EQ(entry["logprob"], -0.5);
    EXPECT_EQ(entry["top_logprobs"].size(), 3u);
    EXPECT_EQ(entry["top_logprobs"][1].dump(), R"({"token":"z","logprob":-1.5,"bytes":[122]})");
    for (const Json& byte : entry["bytes"]) joined += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(joined, "a😀");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "a😀");
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"][1]["token"], "\uFFFD");
  const Json plain = chat(R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true})").json();
  EXPECT_EQ(plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 0u);
}

// The end token is counted, but neither its text nor its log-probability is shown.
TEST_F(Answers, EndTokensHaveNoLogprobs) {
  start();
  Client client(port());
  client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"q"}],"logprobs":true})");
  engine.channel(0)->push(token(0, 'a', "a"));
  TextEvent last = end(token(0, FakeEngine::kEos, ""), FinishReason::kStop);
  last.token.stop_token = FakeEngine::kEos;
  engine.channel(0)->push(last);
  const Json body = client.read().json();
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"].size(), 1u);
  EXPECT_EQ(body["usage"]["completion_tokens"], 2);
}

TEST_F(Answers, ImpossibleLogprobsAreNumbers) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","logprobs":1})");
  TextEvent event = end(token(0, 'a', "a"), FinishReason::kLength);
  event.token.logprob = -std::numeric_limits<float>::infinity();
  event.token.top_logprobs = {{'b', std::numeric_limits<float>::quiet_NaN()}};
  engine.channel(0)->push(event);
  const Json body = client.read().json();
  EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"].dump(), "[-9999]");
  EXPECT_EQ(body["choices"][0]["logprobs"]["top_logprobs"][0]["b"], -9999);
}

TEST_F(Answers, ReturnedIdsOfAChat) {
  engine.script = answer("hi");
  start();
  const Json body = chat(R"({"messages":[{"role":"user","content":"q"}],"return_token_ids":true})").json();
  EXPECT_EQ(body["choices"][0]["token_ids"].dump(), "[104,105]");
  EXPECT_EQ(body["prompt_token_ids"][0], FakeEngine::kImStart);
}

TEST_F(Answers, FailuresOfARunningRequest) {
  start();
  const auto failed = [&](TextEvent event) {
    Client client(port());
    const std::size_t i = engine.n_submitted();
    client.post("/v1/completions", R"({"prompt":"p","n":2})");
    engine.channel(i)->push(token(0, 'a', "a"));
    engine.channel(i)->push(std::move(event));
    const Answer answer = client.read();
    EXPECT_TRUE(engine.channel(i)->wait_cancelled());  // The other sequence does not go on for nobody.
    return answer;
  };
  TextEvent error = end(TextEvent{}, FinishReason::kError);
  error.token.error = "step 10 failed";
  const Answer answer = failed(error);
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.json()["error"]["message"], "step 10 failed");
  EXPECT_EQ(failed(end(TextEvent{}, FinishReason::kCancelled)).status, 503);
  EXPECT_EQ(failed(end(TextEvent{}, FinishReason::kDeadline)).status, 503);
}

// Long bodies are read and tokenized on a worker; the answer is the same.
TEST_F(Answers, LongBodiesOnAWorker) {
  engine.info_.max_seq_len = 1'000'000;
  engine.script = answer("ok");
  start();
  const std::string body = R"({"prompt":")" + std::string(200'000, 'a') + "\"}";
  const Json got = complete(body).json();
  EXPECT_EQ(got["choices"][0]["text"], "ok");
  EXPECT_EQ(got["usage"]["prompt_tokens"], 200'001);
  EXPECT_EQ(complete(R"({"prompt":")" + std::string(200'000, 'a') + R"(","n":0})").json()["error"]["param"], "n");
}

// AP20: a stream that ended by itself is not cancelled on top.
TEST_F(Answers, WholeStreamsAreNotCancelledAP20) {
  engine.script = answer("hi");
  start();
  for (int i = 0; i < 200; ++i) complete(R"({"prompt":"p","stream":true})");
  for (std::size_t i = 0; i < 200; ++i) EXPECT_TRUE(engine.channel(i)->was_closed_whole());
}

TEST_F(Answers, Tokenize) {
  start();
  const auto tokenize = [&](const std::string& body) { return post(port(), "/tokenize", body); };
  EXPECT_EQ(tokenize(R"({"prompt":"ab"})").body,
            R"({"count":3,"max_model_len":64,"tokens":[256,97,98],"token_strs":null})");
  EXPECT_EQ(
      tokenize(R"({"prompt":"a","add_special_tokens":false,"return_token_strs":true})").json()["token_strs"].dump(),
      R"(["a"])");
  EXPECT_EQ(tokenize(R"({"messages":[{"role":"user","content":"q"}]})").json()["tokens"][0], FakeEngine::kImStart);
  EXPECT_EQ(tokenize(R"({"content":"ab"})").body, R"({"tokens":[97,98]})");
  EXPECT_EQ(tokenize(R"({"content":"a","add_special":true})").body, R"({"tokens":[256,97]})");
  EXPECT_EQ(tokenize(R"({"content":"<|im_start|>"})").body, R"({"tokens":[258]})");
  EXPECT_EQ(tokenize(R"({"content":"<|im_start|>","parse_special":false})").json()["tokens"].size(), 12u);
  EXPECT_EQ(tokenize(R"({"content":"é","with_pieces":true})").body,
            R"({"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
  for (const char* body : {"{}", R"({"prompt":5})", R"({"content":[]})", R"({"messages":[]})", "x", "[]",
                           R"({"prompt":"a","add_special_tokens":3})"})
    EXPECT_EQ(tokenize(body).status, 400) << body;
  EXPECT_EQ(tokenize(R"({"prompt":")" + std::string(100'000, 'a') + "\"}").json()["count"], 100'001);
}

TEST_F(Answers, Detokenize) {
  start();
  EXPECT_EQ(post(port(), "/detokenize", R"({"tokens":[104,105]})").body, R"({"prompt":"hi","content":"hi"})");
  EXPECT_EQ(post(port(), "/detokenize", R"({"tokens":[195]})").json()["prompt"], "\uFFFD");
  EXPECT_EQ(post(port(), "/detokenize", R"({"tokens":[]})").json()["prompt"], "");
  for (const char* body : {"{}", R"({"tokens":5})", R"({"tokens":[300]})", R"({"tokens":["a"]})"})
    EXPECT_EQ(post(port(), "/detokenize", body).status, 400) << body;
}

TEST_F(Answers, ApplyTemplate) {
  start();
  EXPECT_EQ(post(port(), "/apply-template", R"({"messages":[{"role":"user","content":"q"}]})").json()["prompt"],
            "user:q;A:");
  EXPECT_EQ(post(port(), "/apply-template", "{}").json()["error"]["param"], "messages");
}

}  // namespace
}  // namespace monograph::test
