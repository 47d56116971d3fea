#!/usr/bin/env python3
"""Smoke: concurrent requests that shared one replay, by the step log's word, in several buckets, with prefix hits and beside
decode rows, all `replayed`; and the proof that the gate fails when it should. The KV pool is sized by the program itself.
MONOGRAPH_BINARY names the program. On a GPU: MONOGRAPH_SMOKE_FLAGS="--device cuda" MONOGRAPH_SMOKE_LAYERS=512. Standard library
only. (SPEC S-117..S-119, S-124)"""
import concurrent.futures
import copy
import json
import os
import pathlib
import random
import statistics
import tempfile
import threading
import time

import deep
import gate
import serve

SEED = 20261202
LADDER = "16,32,64,128,192"
EXTRA = os.environ.get("MONOGRAPH_SMOKE_FLAGS", "--threads 1").split()
LAYERS = int(os.environ.get("MONOGRAPH_SMOKE_LAYERS", 48))  # steps must last some milliseconds, for requests to meet
FLAGS = ["--max-seq-len", 512, "--prefill-cuda-graph-capture-config", LADDER, *EXTRA]
PLUG_TOKENS = 180  # a step of its own, during which the others arrive
REQUIRED = {"prefill_cuda_graph_status": "replayed"}
# bucket -> new tokens of each of the requests that share it
BURSTS = {16: [3, 4, 5], 32: [10, 15], 64: [20, 1, 30], 128: [60, 30, 20], 192: [100, 50, 10, 5]}
PREFIX_TOKENS = 128  # two blocks
ATTEMPTS = 60


def tokens(rng, n):
    return [rng.randrange(8, deep.VOCAB) for _ in range(n)]


def burst(server, bodies):
    """All at once; answers in order. Everything but the sending is done before."""
    barrier = threading.Barrier(len(bodies))

    def send(body):
        text = json.dumps({"model": server.model(), **body})
        connection = server.connect()
        connection.connect()
        barrier.wait()
        connection.request("POST", "/v1/completions", text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        assert response.status == 200, f"{response.status}: {data}"
        return json.loads(data), dict(response.getheaders())
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, bodies))


def step_seconds(server):
    """How long a step takes, by the decode steps that are running."""
    for _ in range(3000):
        if len(steps := server.steps()) >= 24:
            break
        time.sleep(0.01)
    at = [step["at_us"] for step in steps[-20:]]
    return statistics.median(b - a for a, b in zip(at, at[1:])) / 1e6


def request(rng, name, prefix, n, i):
    return {"request_id": name, "prompt": prefix + tokens(rng, n), "max_tokens": 4, "ignore_eos": True, "seed": i,
            "aux_info": True, "return_token_ids": True, "logprobs": 2, "temperature": [0, 1][i % 2]}


def run_burst(server, trace, rng, bucket, lengths, prefix, label, most_delay):
    """Sends until one step held them all; every answer of every attempt must pass."""
    for attempt in range(ATTEMPTS):
        names = [f"{label}-{bucket}-{attempt}-{i}" for i in range(len(lengths))]
        bodies = [request(rng, name, prefix, n, i) for i, (name, n) in enumerate(zip(names, lengths))]
        plug = threading.Thread(target=server.complete, kwargs={"prompt": tokens(rng, PLUG_TOKENS), "max_tokens": 1})
        plug.start()
        time.sleep(most_delay * rng.random())  # past the step that the plug waits for, into the plug's own
        answers = burst(server, bodies)
        plug.join()
        for answer, headers in answers:
            gate.require_aux(answer, headers, {**REQUIRED, "n_reused_tokens": len(prefix)})
        try:
            step = gate.shared_replay(trace.new_steps(), names, bucket, len(names), with_decode=True)
        except gate.GateError as error:
            missed = error
            continue
        print(f"     {label}: step {step['step']} R={step['R']} T={step['T']} C={step['bucket']}", flush=True)
        return bodies, answers
    raise missed


class Trace:
    """Steps with prefill work, as the log grows; it has thousands of decode steps a second."""

    def __init__(self, server):
        self.file = open(server.step_log)
        self.rest = ""

    def new_steps(self):
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        return [json.loads(line) for line in lines if '"prefill":true' in line]


def test_bursts_share_one_replay():
    rng = random.Random(SEED)
    prefix = tokens(rng, PREFIX_TOKENS)
    done = []
    with serve.Server(MODEL, flags=FLAGS) as server:
        server.complete(prompt=prefix + [9], max_tokens=1)  # its blocks are what the bursts find
        trace, stop = Trace(server), threading.Event()

        def decode(i):  # somebody always decodes
            while not stop.is_set():
                gate.require_aux(*server.complete(prompt=[7, 8, 9 + i], max_tokens=300, ignore_eos=True, aux_info=True), REQUIRED)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            decoders = [pool.submit(decode, i) for i in range(2)]
            try:
                delay = max(0.004, 1.5 * step_seconds(server))
                for bucket, lengths in BURSTS.items():
                    # two decode rows ride along: leave them room in the bucket
                    done.append(run_burst(server, trace, rng, bucket, lengths, [], "cold", delay))
                    done.append(run_burst(server, trace, rng, bucket, lengths, prefix, "hit", delay))
            finally:
                stop.set()
            for decoder in decoders:
                decoder.result()
        for bodies, answers in done:  # and alone, later: the same bits, the same status
            for body, (answer, _) in zip(bodies, answers):
                gate.compare(server.complete(**body)[0], answer)
        for name in ("monograph_prefill_graph_fallbacks_total", "monograph_decode_graph_misses_total",
                     "monograph_failed_steps_total"):
            assert server.metric_sum(name) == 0, f"{name}: {server.metric_sum(name)}"


def refused(work, *words):
    try:
        work()
    except gate.GateError as error:
        assert all(word in str(error) for word in words), f"{error}: expected {words}"
        return
    raise AssertionError(f"the gate let it pass, expected {words}")


def test_gate_fails_on_a_fallback():
    """The same answers from servers that cannot replay: graphs off, and a prompt above the ladder without chunking."""
    rng = random.Random(SEED)
    body = request(rng, "fallback", [], 40, 0)
    with serve.Server(MODEL, flags=FLAGS + ["--enable-prefill-cuda-graph", "false"]) as server:
        answer, headers = server.complete(**body)
        refused(lambda: gate.require_aux(answer, headers, REQUIRED), "prefill_cuda_graph_status", "not_requested")
        refused(lambda: gate.shared_replay(server.steps(), ["fallback"], 64, 1, False), "no step replayed bucket 64")
    with serve.Server(MODEL, flags=FLAGS + ["--enable-chunked-prefill", "false"]) as server:
        answer, headers = server.complete(**request(rng, "long", [], 200, 0))
        refused(lambda: gate.require_aux(answer, headers, REQUIRED), "input_tokens_exceed_capture_limit")
        replayed, headers = server.complete(**body)
        gate.require_aux(replayed, headers, REQUIRED)
        refused(lambda: gate.compare(answer, replayed), "choices")
        refused(lambda: gate.shared_replay(server.steps(), ["fallback"], 64, 2, False), "with 2 requests")
        refused(lambda: gate.shared_replay(server.steps(), ["fallback"], 64, 1, True), "bucket 64")
        gate.shared_replay(server.steps(), ["fallback"], 64, 1, False)


def test_comparer_sees_every_field():
    with serve.Server(MODEL, flags=FLAGS) as server:
        answer, headers = server.complete(**request(random.Random(SEED), "one", [], 20, 0))
    gate.compare(answer, copy.deepcopy(answer))
    gate.require_aux(answer, headers, {name: answer["monograph"][name] for name in gate.AUX_FIELDS})
    for kind, field in [("choices", f) for f in gate.OUTPUT_FIELDS] + [("monograph", "prefill_cuda_graph_status")]:
        changed = copy.deepcopy(answer)
        (changed[kind][0] if kind == "choices" else changed[kind])[field] = "other"
        refused(lambda: gate.compare(changed, answer), f"{kind}.{field}")
    for name in gate.AUX_FIELDS:
        refused(lambda: gate.require_aux(answer, headers, {name: "other"}), name)
        missing = copy.deepcopy(answer)
        del missing["monograph"][name]
        refused(lambda: gate.require_aux(missing, headers, {name: answer["monograph"][name]}), name)
    refused(lambda: gate.require_aux(answer, headers, {"a_typo": 1}), "a_typo")
    refused(lambda: gate.require_aux(answer, {**headers, "X-Monograph-Prefill-Status": "x"}, REQUIRED), "header and usage")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="monograph-smoke-") as folder:
        MODEL = deep.write(pathlib.Path(folder), LAYERS, serve.ROOT / "tests/golden/models/llama-gqa")
        serve.main([test_bursts_share_one_replay, test_gate_fails_on_a_fallback, test_comparer_sees_every_field])
