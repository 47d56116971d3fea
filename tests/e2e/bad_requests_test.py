#!/usr/bin/env python3
"""Malformed requests over HTTP: an OpenAI-shaped 400 that names the field, and nothing else is disturbed.
(issue: Bad input; BUGLOG SA02, SA04, SA06, SA08, SA16, ST08, ST09, TK16, AP01, AP02, AP04, AP06, AP09, AP18, AP19)"""
import json
import threading
import time

import serve

VOCAB = 288
MAX_SEQ_LEN = 256
COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"
HUGE = "99999999999"

# What is wrong with a completion, field by field: (field named, fields of the body).
BAD_FIELDS = [
    *[("temperature", {"temperature": v}) for v in (-1, 5, "hot", [], True)],
    *[("top_p", {"top_p": v}) for v in (0, -0.1, 1.1, "x")],
    *[("top_k", {"top_k": v}) for v in (-2, 1.5, "5", 2**40)],
    *[("min_p", {"min_p": v}) for v in (-0.1, 2, "x")],
    *[("repetition_penalty", {"repetition_penalty": v}) for v in (0, -1, 1e-38, 1e38, "x")],
    *[("presence_penalty", {"presence_penalty": v}) for v in (-2.1, 100, "x")],
    *[("frequency_penalty", {"frequency_penalty": v}) for v in (-2.1, 100, "x")],
    *[("max_tokens", {"max_tokens": v}) for v in ("5", 1.5, -1, 2**63, 2**70, [1], True)],
    *[("min_tokens", {"min_tokens": v}) for v in (-1, 1.5, "x", 10**6)],
    *[("n", {"n": v}) for v in (0, -1, 10**6, 2**31, 1.5, "2")],
    *[("best_of", {"best_of": v}) for v in (0, -1, 10**6, 2**31, 1.5, 5)],
    *[("seed", {"seed": v}) for v in (-1, 1.5, 2**64, "x")],
    *[("logprobs", {"logprobs": v}) for v in (-1, 1000, 1.5, "x")],
    *[("logit_bias", {"logit_bias": v}) for v in (
        {str(VOCAB): 5}, {"-1": 5}, {"abc": 1}, {HUGE: 1}, {"1": 101}, {"1": "x"}, [], 5,
        {str(i): 1 for i in range(10**5)})],
    *[("stop", {"stop": v}) for v in (5, [5], [None], "", [""], {"a": 1}, ["x"] * 1000, "x" * 10**6)],
    *[("stop_token_ids", {"stop_token_ids": v}) for v in ([None], ["5"], [1.5], {}, "x", [VOCAB], [-1], [2**31 - 1])],
    *[("stop_token_ids", {"stop_token_ids": v, "min_tokens": 5, "max_tokens": 8}) for v in ([VOCAB], [-1], [2**31 - 1])],
    *[("prompt", {"prompt": v}) for v in ("", [""], [], [[]], 5, {}, [-1], [VOCAB], [4294967294], [1.5], ["a", 5], [[1], [VOCAB]], [[1], []], [[1], 2],
                                          [None], True)],
    *[("stream", {"stream": v}) for v in ("yes", 1, [])],
    *[("stream_options", {"stream_options": v}) for v in (5, [], {"include_usage": True})],
    *[("ignore_eos", {"ignore_eos": v}) for v in ("yes", 1)],
    *[("return_token_ids", {"return_token_ids": v}) for v in ("yes", 1)],
    *[("cache_salt", {"cache_salt": v}) for v in (5, "x" * 10**5)],
    # Known, but not honoured yet: refused rather than ignored.
    ("echo", {"echo": True, "max_tokens": 1, "logprobs": 1}),
    ("suffix", {"suffix": "end"}),
    ("guided_json", {"guided_json": {"type": "object"}}),
    ("structured_outputs", {"structured_outputs": {"regex": "("}}),
    ("bad_words", {"bad_words": ["x"]}),
    ("allowed_token_ids", {"allowed_token_ids": [1]}),
    ("prompt_logprobs", {"prompt_logprobs": 1}),
    ("truncate_prompt_tokens", {"truncate_prompt_tokens": 5}),
    ("use_beam_search", {"use_beam_search": True}),
]
USER = {"role": "user", "content": "hello"}
BAD_CHATS = [
    *[("messages", {"messages": v}) for v in ([], "hello", None, {}, [5], [{}], [{"role": "user"}],
                                              [{"role": 5, "content": "x"}], [{"role": "user", "content": 5}])],
    ("tools", {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "objekt"}}}]}),
    ("tools", {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "parameters": {
        "pattern": "("}}}]}),
    *[("response_format", {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "string", "pattern": p}}}}) for p in ("(?<=x)*", "+", "a{9999999}")],
    ("top_logprobs", {"messages": [USER], "top_logprobs": 3}),
    ("top_logprobs", {"messages": [USER], "logprobs": True, "top_logprobs": 21}),
    ("max_completion_tokens", {"messages": [USER], "max_completion_tokens": 0}),
]
# Bodies that are no JSON object, or hide one: no field can be named.
BAD_BODIES = {
    "empty": b"", "not JSON": b"{", "two values": b"{} {}", "a list": b"[]", "a number": b"5", "null": b"null",
    "lone quote": b'{"prompt": "', "trailing comma": b'{"prompt": "a",}', "single quotes": b"{'prompt': 'a'}",
    "NaN": b'{"prompt": "a", "temperature": NaN}', "bad UTF-8": b'{"prompt": "\xff\xfe"}',
    "cut UTF-8": b'{"model": "\xc3\x28"}', "GBK": '{"prompt": "你好"}'.encode("gbk"),
    "lone surrogate": b'{"prompt": "\\ud800"}', "deep list": b'{"tools": ' + b"[" * 100_000,
    "deep object": b'{"a":' * 60_000, "NUL byte": b'{"prompt": "a\x00b"}',
}
# Numbers that no double holds; json.dumps cannot write them.
OVERFLOWS = {"prompt": b"[1e999]", "logit_bias": b'{"1": 1e400}', "temperature": b"-1e400", "max_tokens": b"1e400",
             "stop_token_ids": b"[5, 1e400]"}


def check_error(status, headers, data, what, field):
    text = data.decode("utf-8")  # always valid
    assert status == 400, f"{what}: {status} {text[:300]}"
    assert headers["Content-Type"].startswith("application/json"), headers
    error = json.loads(text)["error"]
    assert set(error) >= {"message", "type", "param", "code"}, f"{what}: {error}"
    assert error["type"] == "invalid_request_error" and error["message"], f"{what}: {error}"
    assert "\n" not in error["message"] and len(error["message"]) < 1000, f"{what}: {error}"
    if field:
        named = (error["param"] or "").split("[")[0].split(".")[0]
        assert named == field, f"{what}: expected {field} to be named, got {error}"
        assert field in error["message"], f"{what}: {error}"


class Canary(threading.Thread):
    """Asks the same greedy question over and over; every answer must be the first one's, replayed."""

    def __init__(self, server):
        super().__init__()
        self.server, self.stopping, self.problems, self.n_answers = server, threading.Event(), [], 0
        self.oracle = self.ask()

    def ask(self):
        answer, headers = self.server.complete(prompt=[17, 45, 99, 3, 250] * 9, max_tokens=24, temperature=0,
                                               ignore_eos=True, logprobs=3, return_token_ids=True)
        assert headers["X-Monograph-Prefill-Status"] == "replayed", headers
        return answer["choices"]

    def run(self):
        while not self.stopping.is_set():
            try:
                answer = self.ask()
                self.n_answers += 1
                if answer != self.oracle:
                    self.problems.append(f"{answer} instead of {self.oracle}")
            except Exception as error:  # reported by the main thread
                self.problems.append(repr(error))

    def finish(self):
        self.stopping.set()
        self.join()
        assert not self.problems, self.problems[:3]
        assert self.n_answers > 0


def with_server(test):
    def run():
        with serve.Server(flags=["--max-seq-len", MAX_SEQ_LEN]) as server:
            used = idle_blocks(server)
            canary = Canary(server)
            canary.start()
            test(server)
            canary.finish()
            assert server.process.poll() is None, server.output()
            wait_until(lambda: idle_blocks(server) == used, "every block came back")
            assert server.metric_sum("monograph_prefill_graph_fallbacks_total") == 0
    run.__name__ = test.__name__
    return run


def idle_blocks(server):
    return server.metric_sum("vllm:kv_cache_usage_perc"), server.metric_sum("vllm:num_requests_running")


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


@with_server
def test_bad_fields_are_named(server):
    """SA04, SA06, SA08, SA16, ST08, ST09, AP01, AP02, AP04, AP18, AP19: BAD_FIELDS and BAD_CHATS."""
    for path, base, cases in ((COMPLETION, {"prompt": "a", "max_tokens": 2}, BAD_FIELDS), (CHAT, {}, BAD_CHATS)):
        for field, fields in cases:
            body = json.dumps({"model": server.model(), **base, **fields})
            check_error(*server.post_raw(path, body), f"{path} {str(fields)[:120]}", field)


@with_server
def test_missing_fields_are_named(server):
    check_error(*server.post_raw(COMPLETION, json.dumps({"model": server.model()})), "no prompt", "prompt")
    check_error(*server.post_raw(CHAT, json.dumps({"model": server.model()})), "no messages", "messages")


@with_server
def test_bodies_that_are_no_request(server):
    """TK16, AP09: BAD_BODIES."""
    for path in (COMPLETION, CHAT, "/tokenize", "/detokenize"):
        for what, body in BAD_BODIES.items():
            start = time.monotonic()
            check_error(*server.post_raw(path, body), f"{path} {what}", None)
            assert time.monotonic() - start < 2, f"{what} took {time.monotonic() - start:.2f} s"


@with_server
def test_numbers_beyond_double_name_their_field(server):
    """SA06: OVERFLOWS."""
    for field, value in OVERFLOWS.items():
        body = b'{"user": "x", "%s": %s}' % (field.encode(), value)
        check_error(*server.post_raw(COMPLETION, body), f"{field} {value}", field)


@with_server
def test_prompt_longer_than_context(server):
    def body(n_tokens):
        return json.dumps({"model": server.model(), "prompt": [5] * n_tokens, "max_tokens": 50, "ignore_eos": True})

    status, _, data = server.post_raw(COMPLETION, body(MAX_SEQ_LEN - 1))
    answer = json.loads(data)
    assert status == 200 and answer["usage"]["completion_tokens"] == 1, answer
    assert answer["choices"][0]["finish_reason"] == "length", answer
    for n_tokens in (MAX_SEQ_LEN, MAX_SEQ_LEN + 1, 10 * MAX_SEQ_LEN):
        status, headers, data = server.post_raw(COMPLETION, body(n_tokens))
        check_error(status, headers, data, f"{n_tokens} tokens", None)
        error = json.loads(data)["error"]
        assert error["n_prompt_tokens"] == n_tokens and error["n_ctx"] == MAX_SEQ_LEN, error
        assert str(n_tokens) in error["message"] and str(MAX_SEQ_LEN) in error["message"], error


@with_server
def test_odd_values_that_are_fine(server):
    """SA01, SA02: tiny temperatures are greedy. SA08: a list of lists is one choice for each."""
    oracle, _ = server.complete(prompt="hello", max_tokens=8, temperature=0, return_token_ids=True)
    ids = [choice["token_ids"] for choice in oracle["choices"]]
    for fields in ({"top_k": 1}, {"temperature": 1e-4}, {"temperature": 1e-4, "top_p": 1e-4}, {"temperature": 1e-7}, {"temperature": 1e-38, "top_p": 1e-4}, {"top_p": 1e-9},
                   {"seed": 2**64 - 1, "top_k": 1}, {"logit_bias": {}, "temperature": 0}, {"stop": [], "top_k": 1},
                   {"stop": None, "top_k": 1}, {"n": 1, "best_of": 1, "top_k": 1}, {"user": "x", "top_k": 1}):
        answer, _ = server.complete(prompt="hello", max_tokens=8, return_token_ids=True, **fields)
        assert [c["token_ids"] for c in answer["choices"]] == ids, f"{fields}: {answer}"
    prompts = [[1], [2]]
    both, _ = server.complete(prompt=prompts, max_tokens=8, temperature=0, return_token_ids=True)
    alone = [server.complete(prompt=p, max_tokens=8, temperature=0, return_token_ids=True)[0] for p in prompts]
    assert [c["index"] for c in both["choices"]] == [0, 1], both
    assert [c["token_ids"] for c in both["choices"]] == [a["choices"][0]["token_ids"] for a in alone], (both, alone)


if __name__ == "__main__":
    serve.main([test_bad_fields_are_named, test_missing_fields_are_named, test_bodies_that_are_no_request,
                test_numbers_beyond_double_name_their_field,
                test_prompt_longer_than_context, test_odd_values_that_are_fine])
