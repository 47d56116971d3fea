// Event streams: every chunk's shape, when headers go out, silence, failures, clients that leave or do not read.
#include <atomic>
#include <thread>

#include "tests/server/support/server_fixture.h"

namespace monograph::test {
namespace {

using std::chrono::milliseconds;

class Streams : public ServerTest {
 protected:
  /// Checks each chunk against the API's schema and returns them; the last must be [DONE] (AP17).
  std::vector<Json> chunks_of(const Answer& answer, bool is_chat) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "text/event-stream; charset=utf-8");
    std::vector<std::string> events = answer.events();
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
    std::vector<Json> chunks;
    for (const std::string& event : events) chunks.push_back(parse_json(event, "chunk"));
    check_chunks(chunks, is_chat);
    return chunks;
  }
  static void check_chunks(const std::vector<Json>& chunks, bool is_chat) {
    std::map<int, int> n_finish, n_seen;
    for (const Json& chunk : chunks) {
      EXPECT_EQ(chunk["object"], is_chat ? "chat.completion.chunk" : "text_completion");
      EXPECT_EQ(chunk["id"], chunks.front()["id"]);
      EXPECT_TRUE(chunk["created"].is_number_integer());
      for (const Json& choice : chunk["choices"]) check_choice(choice, is_chat, n_finish, n_seen);
    }
    for (const auto& [index, n] : n_seen) EXPECT_EQ(n_finish[index], 1) << "choice " << index;
  }
  static void check_choice(const Json& choice, bool is_chat, std::map<int, int>& n_finish, std::map<int, int>& n_seen) {
    const int index = choice["index"].get<int>();
    EXPECT_EQ(n_finish[index], 0) << "a chunk after the last";
    ASSERT_TRUE(choice.contains("finish_reason"));
    if (!choice["finish_reason"].is_null()) ++n_finish[index];
    const bool is_first = n_seen[index]++ == 0;
    if (!is_chat) {
      EXPECT_TRUE(choice["text"].is_string());
      return;
    }
    const Json& delta = choice["delta"];
    EXPECT_EQ(delta.contains("role"), is_first);
    EXPECT_EQ(delta.value("role", "assistant"), "assistant");
    EXPECT_TRUE(!delta.contains("content") || delta["content"].is_string());
  }
  static std::string joined(const std::vector<Json>& chunks, bool is_chat, int index = 0) {
    std::string text;
    for (const Json& chunk : chunks)
      for (const Json& choice : chunk["choices"]) {
        if (choice["index"] != index) continue;
        if (!is_chat)
          text += choice["text"].get<std::string>();
        else if (choice["delta"].contains("content"))
          text += choice["delta"]["content"].get<std::string>();
      }
    return text;
  }
};

TEST_F(Streams, Completion) {
  engine.script = answer("hé😀!", FinishReason::kLength);
  start();
  const Answer got = complete(R"({"prompt":"abc","stream":true})");
  EXPECT_EQ(got.header("x-monograph-prefill-status"), "replayed");
  EXPECT_EQ(got.header("cache-control"), "no-cache");
  const auto chunks = chunks_of(got, false);
  EXPECT_EQ(joined(chunks, false), "hé😀!");
  EXPECT_EQ(chunks.size(), 4u);  // Half characters wait for their other half.
  EXPECT_EQ(chunks.front()["choices"][0].dump(), R"({"index":0,"text":"h","logprobs":null,"finish_reason":null})");
  EXPECT_FALSE(chunks.front().contains("usage"));
  EXPECT_EQ(chunks.back()["choices"][0].dump(),
            R"({"index":0,"text":"!","logprobs":null,"finish_reason":"length","stop_reason":null,)"
            R"("monograph":{"prefill_cuda_graph_status":"replayed"}})");
  EXPECT_EQ(chunks.back()["monograph"].dump(), R"({"prefill_cuda_graph_status":"replayed"})");
}

TEST_F(Streams, S104_PlainGenerate) {
  engine.script = answer("hé", FinishReason::kLength);
  start();
  const Answer got = post(port(), "/generate", R"({"prompt":"abc","stream":true,"request_id":"x"})");
  EXPECT_EQ(got.header("x-monograph-prefill-status"), "replayed");
  EXPECT_EQ(got.events(),
            (std::vector<std::string>{
                R"({"id":"gen-x","outputs":[{"index":0,"text":"h","finish_reason":null,"token_ids":[104]}]})",
                R"({"id":"gen-x","outputs":[{"index":0,"text":"","finish_reason":null,"token_ids":[195]}]})",
                R"({"id":"gen-x","outputs":[{"index":0,"text":"é","finish_reason":"length","stop_reason":null,)"
                R"("monograph":{"prefill_cuda_graph_status":"replayed"},"token_ids":[169]}],)"
                R"("monograph":{"prefill_cuda_graph_status":"replayed"}})",
                "[DONE]"}));
}

TEST_F(Streams, ChatWithUsage) {
  engine.script = answer("hi");
  start();
  const auto chunks = chunks_of(
      chat(
          R"({"messages":[{"role":"user","content":"q"}],"stream":true,"stream_options":{"include_usage":true},"aux_info":true})"),
      true);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"].dump(), R"({"role":"assistant","content":"h"})");
  EXPECT_TRUE(chunks[0]["usage"].is_null());
  EXPECT_EQ(chunks[1]["choices"][0]["delta"].dump(), R"({"content":"i"})");
  EXPECT_EQ(chunks[1]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunks[2]["choices"].size(), 0u);
  EXPECT_EQ(
      chunks[2]["usage"].dump(),
      R"({"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0},)"
      R"("prefill_cuda_graph_status":"replayed","n_prefill_steps":1,"n_prefill_replays":1,"n_reused_tokens":0})");
  EXPECT_EQ(chunks[2]["monograph"]["n_prefill_steps"], 1);
}

TEST_F(Streams, ContinuousUsage) {
  engine.script = answer("hi");
  start();
  const auto chunks = chunks_of(
      complete(R"({"prompt":"p","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})"),
      false);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(chunks[1]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(chunks[2]["usage"]["total_tokens"], 4);
}

TEST_F(Streams, IdsWithEveryChunk) {
  engine.script = answer("é!");
  start();
  const auto chunks = chunks_of(complete(R"({"prompt":"p","stream":true,"return_token_ids":true})"), false);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0]["choices"][0]["token_ids"].dump(), "[195]");
  EXPECT_EQ(chunks[0]["choices"][0]["prompt_token_ids"].dump(), "[256,112]");
  EXPECT_EQ(chunks[1]["choices"][0]["token_ids"].dump(), "[169]");
  EXPECT_FALSE(chunks[1]["choices"][0].contains("prompt_token_ids"));
  const auto chatted =
      chunks_of(chat(R"({"messages":[{"role":"user","content":"q"}],"stream":true,"return_token_ids":true})"), true);
  EXPECT_EQ(chatted[0]["prompt_token_ids"][0], FakeEngine::kImStart);
  EXPECT_EQ(chatted[1]["choices"][0]["token_ids"].dump(), "[169]");
}

TEST_F(Streams, Logprobs) {
  engine.script = answer("ab");
  start();
  const auto chunks = chunks_of(complete(R"({"prompt":"p","stream":true,"logprobs":1})"), false);
  EXPECT_EQ(chunks[1]["choices"][0]["logprobs"].dump(),
            R"({"tokens":["b"],"token_logprobs":[-0.5],"top_logprobs":[{"b":-0.5}],"text_offset":[1]})");
  const auto chatted =
      chunks_of(chat(R"({"messages":[{"role":"user","content":"q"}],"stream":true,"logprobs":true})"), true);
  EXPECT_EQ(chatted[1]["choices"][0]["logprobs"].dump(),
            R"({"content":[{"token":"b","logprob":-0.5,"bytes":[98],"top_logprobs":[]}],"refusal":null})");
}

TEST_F(Streams, SeveralChoices) {
  start();
  Client client(port());
  client.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"q"}],"stream":true,"n":2})");
  const auto channel = engine.channel(0);
  channel->push(with_status(token(1, 'x', "x"), PrefillStatus::kReplayed));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("X-Monograph-Prefill-Status: replayed"), std::string::npos) << head;
  channel->push(with_status(token(0, 'a', "a"), PrefillStatus::kRequestNotSupported));
  channel->push(end(with_status(token(0, 'b', "b"), PrefillStatus::kRequestNotSupported), FinishReason::kLength));
  channel->push(end(token(1, 'y', "y"), FinishReason::kStop));
  std::string body = client.read_until("[DONE]");
  // The header was early; what stands in the chunks counts.
  EXPECT_NE(
      body.find(R"("index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":"length","stop_reason":null,)"
                R"("monograph":{"prefill_cuda_graph_status":"request_not_supported"})"),
      std::string::npos)
      << body;
  EXPECT_NE(body.find(R"(}],"monograph":{"prefill_cuda_graph_status":"request_not_supported"}})"), std::string::npos)
      << body;
}

// S-104: a preemption after the header; the last chunk carries the latched value.
TEST_F(Streams, StatusChangesAfterTheHeader) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true,"stream_options":{"include_usage":true}})");
  engine.channel(0)->push(token(0, 'a', "a"));
  EXPECT_NE(client.read_until("\r\n\r\n").find("X-Monograph-Prefill-Status: replayed"), std::string::npos);
  engine.channel(0)->push(
      end(with_status(token(0, 'b', "b"), PrefillStatus::kScratchKvUnavailable, 2, 1), FinishReason::kStop));
  const std::string body = client.read_until("[DONE]");
  EXPECT_NE(
      body.find(R"("prompt_tokens_details":{"cached_tokens":0},"prefill_cuda_graph_status":"scratch_kv_unavailable")"),
      std::string::npos)
      << body;
}

TEST_F(Streams, PingsInSilence) {
  config.ping_interval = milliseconds(20);
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true})");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_EQ(head.find("X-Monograph-Prefill-Status"), std::string::npos) << head;  // Nobody knows it yet.
  client.read_until(": ping\n\n");
  client.read_until(": ping\n\n");
  engine.channel(0)->push(token(0, 'a', "a"));
  client.read_until("\"text\":\"a\"");
  client.read_until(": ping\n\n");
  engine.channel(0)->push(end(token(0, 'b', "b"), FinishReason::kStop));
  EXPECT_NE(client.read_until("[DONE]").find(R"("monograph":{"prefill_cuda_graph_status":"replayed"})"),
            std::string::npos);
}

TEST_F(Streams, NoPingsInWholeAnswers) {
  config.ping_interval = milliseconds(5);
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p"})");
  std::this_thread::sleep_for(milliseconds(30));
  engine.channel(0)->push(end(token(0, 'b', "b"), FinishReason::kStop));
  EXPECT_EQ(client.read().json()["choices"][0]["text"], "b");
}

// The first token is on the wire before the second exists.
TEST_F(Streams, EventsAreNotHeldBack) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true})");
  const auto channel = engine.channel(0);
  for (const char c : std::string("abcdef")) {
    channel->push(token(0, c, std::string(1, c)));
    client.read_until("\"text\":" + json_string(std::string(1, c)));
  }
  channel->push(end(token(0, 'z', "z"), FinishReason::kStop));
  client.read_until("[DONE]");
}

TEST_F(Streams, KeepAliveAndClose) {
  engine.script = answer("hi");
  start();
  Client kept(port());
  for (int i = 0; i < 3; ++i) {
    kept.post("/v1/completions", R"({"prompt":"p","stream":true})");
    EXPECT_EQ(kept.read().events().back(), "[DONE]");
  }
  Client closing(port());
  closing.post("/v1/completions", R"({"prompt":"p","stream":true})", "Connection: close\r\n");
  const Answer answer = closing.read();
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_EQ(answer.events().back(), "[DONE]");
  EXPECT_TRUE(closing.is_closed());
}

TEST_F(Streams, FailureAfterTheFirstByteAP15) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true})");
  engine.channel(0)->push(token(0, 'a', "a"));
  client.read_until("\"text\":\"a\"");
  TextEvent failed = end(TextEvent{}, FinishReason::kError);
  failed.token.error = "step 10: \xff";
  engine.channel(0)->push(failed);
  const std::string rest = client.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find("data: {\"error\":{\"message\":\"step 10: \uFFFD\",\"type\":\"server_error\""), std::string::npos)
      << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_EQ(rest.find("\"finish_reason\":\""), std::string::npos);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(Streams, FailureBeforeTheFirstByteHasAStatus) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true})");
  engine.channel(0)->push(end(TextEvent{}, FinishReason::kError));
  EXPECT_EQ(client.read().status, 500);
}

// AP11, AP12: the engine hears at once of a client that leaves: streaming or not, before or after the first token.
TEST_F(Streams, ClientsThatLeaveAP11AP12) {
  start();
  std::size_t i = 0;
  for (const char* body : {R"({"prompt":"p"})", R"({"prompt":"p","stream":true})"})
    for (const bool after_token : {false, true})
      for (const bool half : {false, true}) {
        Client client(port());
        client.post("/v1/completions", body);
        const auto channel = engine.channel(i++);
        if (after_token) channel->push(token(0, 'a', "a"));
        if (half)
          client.shut_down_sending();
        else
          client.close();
        EXPECT_TRUE(channel->wait_cancelled()) << body << after_token << half;
      }
  expect_alive();
  EXPECT_NE(get(port(), "/metrics").body.find(R"(handler="/v1/completions",method="POST",status="499"} 8)"),
            std::string::npos);
}

TEST_F(Streams, LeavingWhileAnotherRequestWaitsInTheBuffer) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p"})");
  client.post("/v1/completions", R"({"prompt":"q"})");
  const auto channel = engine.channel(0);
  client.close();
  EXPECT_TRUE(channel->wait_cancelled());
  EXPECT_EQ(engine.n_submitted(), 1u);
}

TEST_F(Streams, LeavingWhileAWorkerTokenizes) {
  engine.info_.max_seq_len = 1'000'000;
  config.inline_body_bytes = 8000;
  start();
  std::atomic<bool> may_go{false}, is_in{false};
  engine.on_submit = [&](const Request&) {
    is_in = true;
    is_in.notify_all();
    may_go.wait(false);
  };
  {
    Client client(port());
    client.post("/v1/completions", R"({"prompt":")" + std::string(20'000, 'a') + "\"}");
    is_in.wait(false);
  }
  // Both answered while the worker is held: the loop has seen the client leave.
  expect_alive();
  may_go = true;
  may_go.notify_all();
  EXPECT_TRUE(engine.channel(0)->wait_cancelled());
}

// SE06: a reader that takes nothing is dropped at a bound and disturbs nobody.
TEST_F(Streams, ReadersThatDoNotReadSE06) {
  config.max_unsent_bytes = 100'000;
  start();
  Client stuck(port(), /*receive_bytes=*/4096);
  stuck.post("/v1/completions", R"({"prompt":"p","stream":true,"max_tokens":1000000})");
  const auto channel = engine.channel(0);
  const std::string text(10'000, 'x');
  for (int i = 0; i < 5000 && !channel->is_cancelled(); ++i) {
    channel->push(token(0, 'x', text));
    if (i % 100 == 0) {
      EXPECT_EQ(get(port(), "/health").status, 200);
    }
  }
  EXPECT_TRUE(channel->wait_cancelled());
  EXPECT_NE(get(port(), "/metrics").body.find("monograph_http_dropped_readers_total 1\n"), std::string::npos);
  EXPECT_NE(logged().find("does not read"), std::string::npos);
}

TEST_F(Streams, StalledReadersAreDroppedInTime) {
  config.write_timeout = milliseconds(100);
  start();
  Client stuck(port(), /*receive_bytes=*/4096);
  stuck.post("/v1/completions", R"({"prompt":"p"})");
  const auto channel = engine.channel(0);
  channel->push(end(token(0, 'x', std::string(8 << 20, 'x')), FinishReason::kStop));
  // The answer does not fit the socket's buffers; after the timeout the connection is gone.
  for (int i = 0; i < 1000; ++i) {
    if (get(port(), "/metrics").body.find("monograph_http_connections 1\n") != std::string::npos) return;
    std::this_thread::sleep_for(milliseconds(5));
  }
  FAIL() << get(port(), "/metrics").body;
}

// AP14, AP17: many streams, many of them dropped at some token; the others are whole and well-formed.
TEST_F(Streams, ManyStreamsManyDroppedAP14) {
  start();
  constexpr int kThreads = 8, kEach = 40;
  std::atomic<int> n_whole{0};
  engine.script = answer("The quick é😀 brown fox");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const bool is_chat = (i + t) % 2 == 0;
        Client client(port());
        client.post(is_chat ? "/v1/chat/completions" : "/v1/completions",
                    is_chat ? R"({"messages":[{"role":"user","content":"q"}],"stream":true,"n":3})"
                            : R"({"prompt":["a","b"],"stream":true,"n":2})");
        if (i % 4 == 3) continue;  // Leaves.
        const Answer got = client.read();
        const auto chunks = chunks_of(got, is_chat);
        for (int index = 0; index < (is_chat ? 3 : 4); ++index)
          if (joined(chunks, is_chat, index) == "The quick é😀 brown fox") ++n_whole;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_whole, kThreads * kEach * 3 / 4 * 7 / 2);
  expect_alive();
}

// Events pushed from another thread while the loop sends: nothing is lost or doubled.
TEST_F(Streams, EventsFromTheEngineThread) {
  start();
  for (std::size_t round = 0; round < 20; ++round) {
    Client client(port());
    client.post("/v1/completions", R"({"prompt":"p","stream":true,"return_token_ids":true})");
    const auto channel = engine.channel(round);
    std::thread engine_thread([&] {
      for (int i = 0; i < 200; ++i) channel->push(token(0, i % 256, "."));
      channel->push(end(token(0, 'z', "!"), FinishReason::kLength));
    });
    const auto chunks = chunks_of(client.read(), false);
    engine_thread.join();
    ASSERT_EQ(chunks.size(), 201u);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(chunks[static_cast<std::size_t>(i)]["choices"][0]["token_ids"][0], i % 256);
  }
}

// --- Stopping ---

class Stopping : public Streams {};

TEST_F(Stopping, RunningStreamsFinishAndNewWorkIsRefused) {
  start();
  Client running(port());
  running.post("/v1/completions", R"({"prompt":"p","stream":true})");
  const auto channel = engine.channel(0);
  channel->push(token(0, 'a', "a"));
  running.read_until("\"text\":\"a\"");
  server->request_stop(milliseconds(60'000));
  Answer refused;
  while ((refused = get(port(), "/health")).status == 200) {
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(complete(R"({"prompt":"p"})").json()["error"]["code"], "stopping");
  EXPECT_EQ(get(port(), "/livez").status, 200);
  channel->push(end(token(0, 'b', "b"), FinishReason::kStop));
  running.read_until("[DONE]");
  server->wait();
  EXPECT_TRUE(channel->was_closed_whole());
}

// LK01: streams that outlast the deadline end with an error event.
TEST_F(Stopping, DeadlineEndsStreamsWithAnError) {
  start();
  Client stream(port()), whole(port()), idle(port());
  stream.post("/v1/completions", R"({"prompt":"p","stream":true})");
  engine.channel(0)->push(token(0, 'a', "a"));
  stream.read_until("\"text\":\"a\"");
  whole.post("/v1/completions", R"({"prompt":"p"})");
  engine.channel(1);
  server->request_stop(milliseconds(20));
  const std::string rest = stream.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find("\"code\":\"stopping\""), std::string::npos) << rest;
  const Answer answer = whole.read();
  EXPECT_EQ(answer.status, 503);
  server->wait();
  EXPECT_TRUE(engine.channel(0)->is_cancelled());
  EXPECT_TRUE(engine.channel(1)->is_cancelled());
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(Stopping, ASecondRequestMakesItSooner) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p"})");
  engine.channel(0);
  server->request_stop(milliseconds(600'000));
  server->request_stop(milliseconds(0));
  EXPECT_EQ(client.read().status, 503);
  server->wait();
}

TEST_F(Stopping, WhileLoading) {
  start(/*with_engine=*/false);
  Client client(port());
  client.get("/health");
  EXPECT_EQ(client.read().status, 503);
  server->request_stop(milliseconds(10'000));
  server->wait();
  EXPECT_TRUE(client.is_closed());
}

TEST_F(Stopping, DestroyedWhileRunning) {
  start();
  Client client(port());
  client.post("/v1/completions", R"({"prompt":"p","stream":true})");
  const auto channel = engine.channel(0);
  server.reset();
  EXPECT_TRUE(channel->is_cancelled());
}

}  // namespace
}  // namespace monograph::test
