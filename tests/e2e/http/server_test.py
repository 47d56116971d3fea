#!/usr/bin/env python3
"""The server in real traffic: streams equal answers, the lane replays, clients that leave give their memory back."""
import json
import random
import socket
import threading
import time

import serve

PATH = "/v1/completions"
CHAT = "/v1/chat/completions"
WORDS = "the of river stone light house under green walking quietly before seven birds é 日本 😀 code(); \n".split(" ")


def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


def text_of(chunks, index=0):
    out = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] == index:
                out += choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return out


def test_streams_equal_answers(server):
    """Also with stop strings over token borders, emoji cut by max_tokens, several choices."""
    rng = random.Random(7)
    for i in range(30):
        body = {"prompt": words(rng, rng.randint(1, 60)), "max_tokens": rng.randint(1, 24), "n": rng.choice([1, 1, 3]),
                "temperature": rng.choice([0, 1.0, 1.9]), "seed": i, "stop": rng.choice([None, "\n", ["he", " in ", "."]])}
        status, headers, whole = server.post(PATH, body)
        assert status == 200, whole
        stream_headers, chunks = server.stream(PATH, body)
        for choice in whole["choices"]:
            assert text_of(chunks, choice["index"]) == choice["text"], (body, choice)
            reasons = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]
                       if c["index"] == choice["index"] and c["finish_reason"]]
            assert reasons == [choice["finish_reason"]], (body, reasons)
        assert headers["X-Monograph-Prefill-Status"] == "replayed", headers
        assert stream_headers["X-Monograph-Prefill-Status"] == "replayed", stream_headers


def test_one_token_answers(server):
    """TK18: the token that the prefill samples is the answer."""
    for path, body in ((PATH, {"prompt": "The sky is"}), (CHAT, {"messages": [{"role": "user", "content": "Hi"}]})):
        body |= {"max_tokens": 1, "temperature": 0}
        whole = server.post(path, body)[2]
        chunks = server.stream(path, body | {"stream_options": {"include_usage": True}})[1]
        text = whole["choices"][0].get("text") or whole["choices"][0]["message"]["content"]
        assert text and text_of(chunks) == text
        assert whole["usage"]["completion_tokens"] == chunks[-1]["usage"]["completion_tokens"] == 1


def test_usage_is_exact(server):
    """R12: the usage equals the ids and the engine's own counters."""
    before = server.metric("vllm:generation_tokens_total"), server.metric("vllm:prompt_tokens_total")
    n_out = n_in = 0
    for seed in range(10):
        body = {"prompt": f"Number {seed} is", "max_tokens": 9, "seed": seed, "return_token_ids": True}
        whole = server.post(PATH, body)[2]
        assert len(whole["choices"][0]["token_ids"]) == whole["usage"]["completion_tokens"]
        assert len(whole["choices"][0]["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
        n_out += whole["usage"]["completion_tokens"]
        n_in += whole["usage"]["prompt_tokens"]
    after = server.metric("vllm:generation_tokens_total"), server.metric("vllm:prompt_tokens_total")
    assert after[0] - before[0] == n_out and after[1] - before[1] == n_in, (before, after, n_out, n_in)


def test_text_calls_agree(server):
    messages = [{"role": "user", "content": "Say <|im_end|> twice."}]
    ids = server.post("/tokenize", {"messages": messages})[2]["tokens"]
    chat = server.post(CHAT, {"messages": messages, "max_tokens": 1, "return_token_ids": True})[2]
    assert chat["prompt_token_ids"] == ids
    assert server.post("/detokenize", {"tokens": ids})[2]["prompt"] == server.post(
        "/apply-template", {"messages": messages})[2]["prompt"]
    plain = server.post("/tokenize", {"prompt": "The sky is"})[2]["tokens"]
    done = server.post(PATH, {"prompt": "The sky is", "max_tokens": 1, "return_token_ids": True})[2]
    assert done["choices"][0]["prompt_token_ids"] == plain


def test_repeated_prompts_are_cached(server):
    body = {"prompt": words(random.Random(11), 200), "max_tokens": 2, "temperature": 0, "aux_info": True}
    first = server.post(PATH, body)[2]
    again = server.post(PATH, body)[2]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, again["usage"]
    assert again["choices"][0]["text"] == first["choices"][0]["text"]
    assert again["monograph"]["n_reused_tokens"] == again["usage"]["prompt_tokens_details"]["cached_tokens"]
    # SE16: another salt shares nothing.
    salted = server.post(PATH, body | {"cache_salt": "other"})[2]
    assert salted["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert salted["choices"][0]["text"] == first["choices"][0]["text"]


def test_long_prompt_in_three_chunks(server):
    body = {"prompt": [random.Random(5).randrange(1000, 40000) for _ in range(5000)], "max_tokens": 2, "aux_info": True}
    whole = server.post(PATH, body)[2]
    assert whole["monograph"]["n_prefill_steps"] == whole["monograph"]["n_prefill_replays"] == 3, whole["monograph"]


def test_mixed_traffic(server):
    """16 clients, shared prefixes, prompts above the largest bucket, decodes running: everything replays."""
    rng = random.Random(3)
    shared = words(rng, 300)
    bodies = []
    for i in range(16):
        prompt = words(random.Random(100 + i), 900) if i % 8 == 7 else shared + words(random.Random(i), 20 + 5 * i)
        bodies.append({"prompt": prompt, "max_tokens": 24, "temperature": 0, "aux_info": True})
    answers = [None] * 16

    def client(i):
        answers[i] = server.stream(PATH, bodies[i] | {"stream_options": {"include_usage": True}})

    threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, (headers, chunks) in enumerate(answers):
        assert headers["X-Monograph-Prefill-Status"] == "replayed"
        assert chunks[-1]["monograph"]["prefill_cuda_graph_status"] == "replayed"
    for i in (0, 5, 7, 10):  # Neighbours change no bit.
        assert text_of(answers[i][1]) == server.post(PATH, bodies[i])[2]["choices"][0]["text"], i
    assert server.metric("monograph_prefill_graph_fallbacks_total") == 0
    if server.step_log:
        replays = [step["rows"] for step in server.steps() if step.get("replayed")]
        mixed = [rows for rows in replays if {row["prefill"] for row in rows} == {True, False}]
        assert mixed, "no replay held prefill and decode rows"
        assert any(row["prefill"] and row["prefix"] > 0 for rows in replays for row in rows), "no replay had a prefix"
        shared_steps = [rows for rows in replays if sum(row["prefill"] for row in rows) >= 2]
        assert shared_steps, "no replay held two prefills"


def occupied(server):
    return server.metric("monograph_kv_blocks_used"), server.metric("vllm:num_requests_running"), server.metric(
        "vllm:num_requests_waiting")


def wait_empty(server, patience=20):
    end = time.monotonic() + patience
    while occupied(server) != (0, 0, 0):
        assert time.monotonic() < end, occupied(server)
        time.sleep(0.02)


def raw_request(server, path, body):
    text = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(text)) + text)
    return s


def test_clients_that_leave(server):
    """AP11, AP12: streaming or not, in queue, prefill or decode, everything comes back."""
    wait_empty(server)
    before = server.metric("vllm:generation_tokens_total")
    for stream in (False, True):
        for delay in (0, 0.01, 0.1, 0.5):
            body = {"prompt": words(random.Random(delay), 800), "max_tokens": 6000, "ignore_eos": True, "stream": stream}
            s = raw_request(server, PATH, body)
            time.sleep(delay)
            s.close()
            wait_empty(server)
    assert server.metric("vllm:generation_tokens_total") - before < 2000


def test_many_dropped_streams(server):
    """AP14, smaller: streams dropped at a random moment; then the server is as before."""
    wait_empty(server)
    body = {"prompt": "The quick brown fox", "max_tokens": 12, "temperature": 0}
    expected = server.post(PATH, body)[2]["choices"][0]["text"]
    rng = random.Random(9)
    for _ in range(10):
        sockets = [raw_request(server, PATH, body | {"stream": True, "max_tokens": 500}) for _ in range(30)]
        for s in sockets:
            time.sleep(rng.random() * 0.02)
            s.close()
    for _ in range(10):
        assert server.post(PATH, body)[2]["choices"][0]["text"] == expected
    wait_empty(server)


def test_health_under_load(server):
    """OL: the event loop answers while the engine is busy."""
    s = raw_request(server, PATH, {"prompt": words(random.Random(1), 1500), "max_tokens": 300, "ignore_eos": True})
    slowest = 0
    for _ in range(50):
        start = time.monotonic()
        assert server.get("/health")[0] == 200
        slowest = max(slowest, time.monotonic() - start)
    s.close()
    assert slowest < 1.0, slowest
    wait_empty(server)


def context_limits(server):
    """AP06: one token fits below the context; at the context and beyond both numbers are named."""
    limit = json.loads(server.get("/v1/models")[1])["data"][0]["max_model_len"]
    status, _, body = server.post(PATH, {"prompt": [5] * (limit - 1), "max_tokens": 50})
    assert status == 200 and body["usage"]["completion_tokens"] == 1 and body["choices"][0]["finish_reason"] in ("length", "stop")
    for n in (limit, limit + 1, 10 * limit):
        status, _, body = server.post(PATH, {"prompt": [5] * n, "max_tokens": 1})
        assert status == 400 and body["error"]["n_prompt_tokens"] == n and body["error"]["n_ctx"] == limit, body
        assert str(n) in body["error"]["message"] and str(limit) in body["error"]["message"]


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    arguments = serve.arguments(__doc__)
    # A ping before the first token would leave the status out of the header; on a busy machine that happens.
    with serve.Server(arguments, "--sse-ping-interval", "0") as running:
        serve.run(TESTS, running)
    if not arguments.base_url:
        with serve.Server(arguments, "--max-seq-len", "200") as running:
            serve.run([context_limits], running)
