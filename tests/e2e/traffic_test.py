#!/usr/bin/env python3
"""The lane under real traffic: `monograph serve`, many HTTP clients, and the step log as witness. The tiny model by
default; MONOGRAPH_TEST_MODEL names the default model for the tests that need longer steps, or a folder with a config.json
alone, which gets random weights. On a GPU: MONOGRAPH_SERVE_FLAGS="--device cuda".
(issue: The lane in real traffic, Streams and cancels; BUGLOG AP11, AP12, AP14, AP17)"""
import concurrent.futures
import json
import os
import pathlib
import random
import time

import serve

VOCAB = 288
REAL = pathlib.Path(os.environ.get("MONOGRAPH_TEST_MODEL", serve.ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
REAL_FLAGS = ["--load-format", "dummy"] if REAL.is_dir() and not list(REAL.glob("*.safetensors")) else []
SEED = 1234


def wait_until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return found


def check_status(answer, headers):
    assert headers["X-Monograph-Prefill-Status"] == "replayed", headers
    assert answer["usage"]["prefill_cuda_graph_status"] == "replayed", answer
    assert answer["monograph"]["prefill_cuda_graph_status"] == "replayed", answer


def outputs(answer):
    """What must not depend on company: text, ids, log-probabilities and end; not how many steps it took."""
    return [{key: choice[key] for key in ("index", "text", "token_ids", "logprobs", "finish_reason")}
            for choice in answer["choices"]]


def check_counters(server):
    for name in ("monograph_prefill_graph_fallbacks_total", "monograph_decode_graph_misses_total",
                 "monograph_sampling_outside_graph_total", "monograph_failed_steps_total"):
        assert server.metric_sum(name) == 0, f"{name}: {server.metric_sum(name)}"
    for step in server.steps():
        if step["R"]:
            assert step["replayed"] and step["bucket"] >= step["T"], step
            wanted = "replayed" if any(row["prefill"] for row in step["rows"]) else "not_requested"
            assert step["status"] == wanted, step


def check_idle(server):
    wait_until(lambda: server.metric_sum("monograph_kv_blocks_used") == 0, "no block in use")
    assert server.metric_sum("vllm:num_requests_running") == server.metric_sum("vllm:num_requests_waiting") == 0


def random_request(rng, prefixes, i):
    tokens = list(rng.choice(prefixes)[:rng.randrange(1, 140)]) if rng.random() < 0.7 else []
    tokens += [rng.randrange(VOCAB) for _ in range(rng.choice([1, 5, 30, 90, 200]))]
    body = {"prompt": tokens, "max_tokens": rng.randrange(1, 60), "ignore_eos": True, "seed": i, "logprobs": 2,
            "temperature": rng.choice([0, 0, 0.7, 1.5]), "return_token_ids": True}
    if rng.random() < 0.3:
        body |= {"top_k": rng.randrange(1, 50), "repetition_penalty": 1.2, "presence_penalty": 0.5}
    return body


# ---- Mixed traffic

def test_sixteen_clients():
    """Every answer is what the same request gives alone; every forward replays; steps mix prefill and decode rows."""
    rng = random.Random(SEED)
    prefixes = [[rng.randrange(VOCAB) for _ in range(140)] for _ in range(3)]
    requests = [random_request(rng, prefixes, i) for i in range(160)]
    with serve.Server(flags=["--max-seq-len", 512, "--chunk-size", 64]) as server:
        # Decodes that run all the while.
        with concurrent.futures.ThreadPoolExecutor(18) as pool:
            long_ones = [pool.submit(server.complete, prompt=[7, 8, 9], max_tokens=500, ignore_eos=True, seed=i)
                         for i in range(2)]
            busy = list(pool.map(lambda body: server.complete(**body), requests))
            for future in long_ones:
                check_status(*future.result())
        steps = server.steps()
        for body, (answer, headers) in zip(requests, busy):
            check_status(answer, headers)
            alone, _ = server.complete(**body)
            assert outputs(alone) == outputs(answer), f"{body}: {outputs(answer)} in traffic, {outputs(alone)} alone"
            if len(body["prompt"]) > 64:
                assert alone["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64, alone["usage"]
        check_counters(server)
        check_idle(server)
    assert any(len({row["id"] for row in s["rows"]}) >= 2 and {row["prefill"] for row in s["rows"]} == {True, False}
               for s in steps), "no step mixed prefill and decode rows of two requests"
    assert any(row["prefill"] and row["prefix"] > 0 and row["prefix"] % 64 == 0 and s["R"] > 1
               for s in steps for row in s["rows"]), "no packed step continued a prefix"
    assert len({s["bucket"] for s in steps}) >= 4, "too few buckets were used"


def test_long_prompt_takes_three_replays():
    with serve.Server(REAL, flags=["--max-seq-len", 6000, *REAL_FLAGS]) as server:
        rng = random.Random(SEED)
        body = {"prompt": [rng.randrange(1000, 40000) for _ in range(5000)], "max_tokens": 4, "temperature": 0,
                "ignore_eos": True, "aux_info": True, "return_token_ids": True}
        first, headers = server.complete(request_id="long", **body)
        check_status(first, headers)
        assert first["monograph"]["n_prefill_steps"] == 3, first
        assert first["monograph"]["n_prefill_replays"] == 3, first
        buckets = [s["bucket"] for s in server.steps() if any(row["prefill"] for row in s["rows"])]
        assert buckets == [2048, 2048, 1024], buckets
        again, _ = server.complete(**body)
        assert outputs(again) == outputs(first), f"{outputs(again)}, first {outputs(first)}"
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 4992, again["usage"]
        check_counters(server)


# ---- Streams

def check_chunks(chunks, kind, n, with_usage):
    """Every chunk has the API's shape; one finish_reason per index."""
    finished = {}
    for i, chunk in enumerate(chunks):
        assert chunk["object"] == kind and chunk["id"] == chunks[0]["id"] and isinstance(chunk["created"], int), chunk
        if with_usage and i == len(chunks) - 1:
            assert chunk["choices"] == [] and chunk["usage"]["completion_tokens"] > 0, chunk
            break
        for choice in chunk["choices"]:
            assert 0 <= choice["index"] < n and choice["index"] not in finished, chunk
            text = choice.get("text", "") if "text" in choice else choice["delta"].get("content", "")
            assert isinstance(text, str), chunk
            assert choice["finish_reason"] in (None, "stop", "length"), chunk
            if choice["finish_reason"]:
                finished[choice["index"]] = choice["finish_reason"]
    assert sorted(finished) == list(range(n)), finished
    return finished


def joined(chunks, n):
    texts = [""] * n
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
    return texts


def emoji_bias(rng):
    """Mostly the four bytes of an emoji, so that characters are split over tokens, whole and broken."""
    ids = [id for byte in (0xF0, 0x9F, 0x98, 0x80) for id in [byte_token(byte)]]
    return {str(id): rng.choice([4, 6, 8]) for id in ids}


def byte_token(byte):
    """The tiny vocabulary: eight specials, then the bytes in their order."""
    return 8 + byte


def test_streams_equal_whole_answers():
    rng = random.Random(SEED)
    with serve.Server(flags=["--max-seq-len", 512]) as server:
        for i in range(120):
            body = {"prompt": [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 80))], "seed": i, "n": 1 + i % 3,
                    "max_tokens": rng.randrange(1, 40), "temperature": rng.choice([0, 1, 1.5])}
            if i % 2:
                body["logit_bias"] = emoji_bias(rng)
            whole, _ = server.complete(**body)
            if i % 3 == 0 and len(whole["choices"][0]["text"]) > 4:  # a stop string out of the middle, over tokens
                text = whole["choices"][0]["text"]
                at = rng.randrange(1, len(text) - 2)
                body["stop"] = [text[at:at + 3], "never" * 3]
                whole, _ = server.complete(**body)
                assert body["stop"][0] not in whole["choices"][0]["text"], whole
            chunks = server.stream(stream_options={"include_usage": True}, **body)
            reasons = check_chunks(chunks, "text_completion", body["n"], True)
            assert joined(chunks, body["n"]) == [c["text"] for c in whole["choices"]], f"{body}: {chunks} {whole}"
            assert [reasons[c["index"]] for c in whole["choices"]] == [c["finish_reason"] for c in whole["choices"]]
            usage, expected = chunks[-1]["usage"], whole["usage"]
            assert usage["completion_tokens"] == expected["completion_tokens"], f"{body}: {usage} {expected}"
        check_counters(server)


def test_chat_streams_equal_whole_answers():
    rng = random.Random(SEED)
    words = "hello and the world of an ångström 🙂 wörld".split()
    with serve.Server(flags=["--max-seq-len", 512]) as server:
        for i in range(40):
            content = " ".join(rng.choices(words, k=rng.randrange(1, 20)))
            body = {"messages": [{"role": "user", "content": content}], "seed": i, "max_tokens": 24, "n": 1 + i % 2,
                    "logit_bias": emoji_bias(rng) if i % 2 else {}}
            status, _, whole = server.post("/v1/chat/completions", {"model": server.model(), **body})
            assert status == 200, whole
            chunks = server.stream("/v1/chat/completions", **body)
            check_chunks(chunks, "chat.completion.chunk", body["n"], False)
            for index in range(body["n"]):
                first = next(c for chunk in chunks for c in chunk["choices"] if c["index"] == index)
                assert first["delta"]["role"] == "assistant", chunks
            texts = [c["message"]["content"] for c in whole["choices"]]
            assert joined(chunks, body["n"]) == texts, f"{body}: {chunks} {whole}"
        check_counters(server)


# ---- Cancels

def open_request(server, stream, **body):
    connection = server.connect()
    connection.request("POST", "/v1/completions", json.dumps({"model": server.model(), "stream": stream, **body}),
                       {"Content-Type": "application/json"})
    return connection


def steps_with(server, request_id):
    return [s for s in server.steps() if any(request_id in row["id"] for row in s["rows"])]


def now_us():
    """The clock of the step log's `at_us`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def gone(server, request_id):
    """When the server saw that the client of a request had gone, once the engine has acted on it."""
    return [one["at_us"] for s in server.steps() for one in s.get("gone", []) if request_id in one["id"]]


def close_and_check(server, connection, request_id):
    """One step may be running when the client goes; none that begins after the server has seen it holds the request."""
    closed_at = now_us()
    connection.close()
    seen_at = wait_until(lambda: gone(server, request_id), f"the engine hears that {request_id} has gone")[0]
    steps = server.steps()
    mine = [s for s in steps if any(request_id in row["id"] for row in s["rows"])]
    assert not [s for s in mine if s["at_us"] > seen_at], f"{request_id} ran after its client was seen to have gone"
    # The kernel tells the server's thread within a step, too.
    late = [s for s in mine if s["at_us"] > closed_at]
    assert len(late) <= 1, f"{request_id} began {len(late)} steps after its client had gone: {late}"
    freeing = [s for s in steps if any(request_id in name for name in s["freed"])]
    if mine:
        assert len(freeing) == 1 and freeing[0]["step"] <= mine[-1]["step"] + 1, (freeing, mine[-1])
    else:
        assert not freeing, freeing


def test_closed_connections_free_their_blocks():
    """AP11, AP12: in decode, in prefill and in the queue, streaming or not, each while another request decodes and stays right."""
    flags = ["--max-seq-len", 4096, "--chunk-size", 256, "--max-seqs", 3]
    rng = random.Random(SEED)
    with serve.Server(REAL, flags=flags) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        canary = {"prompt": "The old harbour", "max_tokens": 40, "temperature": 0, "ignore_eos": True}
        oracle, _ = server.complete(**canary)
        for stream in (True, False):
            kind = "stream" if stream else "whole"
            running = pool.submit(server.complete, **canary)
            # Decode: its first tokens have been made.
            name = f"decode-{kind}"
            connection = open_request(server, stream, request_id=name, prompt="Once upon", max_tokens=3000,
                                      ignore_eos=True)
            wait_until(lambda: len(steps_with(server, name)) >= 4, f"{name} decodes")
            close_and_check(server, connection, name)
            # Prefill: 3,500 tokens are 14 chunks.
            name = f"prefill-{kind}"
            prompt = [rng.randrange(1000, 40000) for _ in range(3500)]
            connection = open_request(server, stream, request_id=name, prompt=prompt, max_tokens=100)
            wait_until(lambda: len(steps_with(server, name)) >= 2, f"{name} is in prefill")
            close_and_check(server, connection, name)
            assert len(steps_with(server, name)) < 14, "the prefill ran to its end"
            # Queue: three others hold every place.
            name = f"queue-{kind}"
            others = [open_request(server, True, request_id=f"holder{i}-{kind}", prompt="Hold on", max_tokens=3000,
                                   ignore_eos=True) for i in range(3)]
            running.result()
            wait_until(lambda: all(steps_with(server, f"holder{i}-{kind}") for i in range(3)), "three requests run")
            connection = open_request(server, stream, request_id=name, prompt="Wait", max_tokens=10)
            wait_until(lambda: server.metric_sum("vllm:num_requests_waiting") == 1, f"{name} waits")
            close_and_check(server, connection, name)
            assert server.metric_sum("vllm:num_requests_waiting") == 0
            assert not steps_with(server, name), f"{name} ran"
            for i, other in enumerate(others):
                close_and_check(server, other, f"holder{i}-{kind}")
            answer = running.result()[0]
            assert answer["choices"][0]["text"] == oracle["choices"][0]["text"], answer
        check_idle(server)
        check_counters(server)


def test_many_dropped_streams():
    """AP14: 600 streams dropped at a random token, 64 at a time; then everything works and nothing leaked."""
    rng = random.Random(SEED)
    with serve.Server(flags=["--max-seq-len", 512, "--max-seqs", 24]) as server:
        def drop(i):
            connection = open_request(server, i % 4 != 0, request_id=f"drop{i}", max_tokens=400, ignore_eos=True,
                                      prompt=[rng.randrange(VOCAB) for _ in range(rng.randrange(1, 100))])
            if i % 4 == 0:
                time.sleep(rng.random() * 0.02)
            else:
                response = connection.getresponse()
                for _ in range(rng.randrange(0, 12)):
                    response.readline()
            connection.close()
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            list(pool.map(drop, range(600)))
        check_idle(server)
        for i in range(30):
            answer, headers = server.complete(prompt=[9, 8, 7, 6], max_tokens=16, ignore_eos=True, seed=i)
            check_status(answer, headers)
            assert answer["usage"]["completion_tokens"] == 16, answer
        check_counters(server)


if __name__ == "__main__":
    serve.main([test_sixteen_clients, test_long_prompt_takes_three_replays, test_streams_equal_whole_answers,
                test_chat_streams_equal_whole_answers, test_closed_connections_free_their_blocks,
                test_many_dropped_streams])
