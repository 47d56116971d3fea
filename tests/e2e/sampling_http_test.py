#!/usr/bin/env python3
"""1,000 random sampling settings over HTTP, among mixed neighbours: ids, log-probabilities, text and end are what the same
request gives alone from a server without graphs, prefix cache and company. Streamed and whole by turns, sampled inside the
graph throughout. (issue: The lane in real traffic)"""
import concurrent.futures
import json
import random

import serve

VOCAB, MAX_SEQ_LEN, SEED = 288, 448, 20261202
N_SETTINGS, N_CLIENTS = 1000, 16
SOLO_BYTES = 64 << 20
COMMON = ["--max-seq-len", MAX_SEQ_LEN, "--chunk-size", 64]


def sampling(rng):
    """One value of each knob, at its edges as often as inside."""
    body = {"temperature": rng.choice([0, 1e-4, 0.5, 1, 1, 2]), "top_p": rng.choice([1, 1, 0.9, 0.5, 0.01]),
            "top_k": rng.choice([0, -1, 1, 5, 40, 400]), "min_p": rng.choice([0, 0, 0.05, 0.5]),
            "repetition_penalty": rng.choice([1, 1, 0.7, 1.3, 5]), "presence_penalty": rng.choice([0, 0, -2, 1.5]),
            "frequency_penalty": rng.choice([0, 0, -0.5, 2]), "seed": rng.randrange(2**64),
            "logprobs": rng.choice([0, 1, 5, 20]), "ignore_eos": rng.random() < 0.2,
            "max_tokens": 1 + rng.randrange(130 if rng.random() < 0.3 else 24), "n": rng.choice([1, 1, 1, 2])}
    if rng.random() < 0.3:
        body["min_tokens"] = rng.randrange(body["max_tokens"] + 1)
    if rng.random() < 0.3:
        body["logit_bias"] = {str(i): rng.choice([-100, -3, 2.5, 100]) for i in rng.sample(range(VOCAB), 20)}
    if rng.random() < 0.2:
        body["stop_token_ids"] = rng.sample(range(VOCAB), 3)
    return body


def requests():
    rng = random.Random(SEED)
    prefixes = [[rng.randrange(VOCAB) for _ in range(140)] for _ in range(3)]
    made = []
    for i in range(N_SETTINGS):
        prompt = rng.choice(prefixes)[:rng.randrange(1, 140)] if rng.random() < 0.5 else []
        prompt = prompt + [rng.randrange(VOCAB) for _ in range(rng.choice([1, 5, 20, 140]))]
        made.append({"prompt": prompt, "return_token_ids": True, **sampling(rng)})
    return made


def result(server, body, stream):
    """What must not depend on company, choice by choice."""
    if not stream:
        choices = server.complete(**body)[0]["choices"]
        return [[c["token_ids"], c["text"], c["finish_reason"], c["logprobs"]["token_logprobs"],
                 c["logprobs"]["top_logprobs"]] for c in choices]
    parts = [[[], "", None, [], []] for _ in range(body["n"])]
    for chunk in server.stream(**body):
        for c in chunk["choices"]:
            part = parts[c["index"]]
            part[0] += c["token_ids"]
            part[1] += c["text"]
            part[2] = c["finish_reason"] or part[2]
            if c["logprobs"]:
                part[3] += c["logprobs"]["token_logprobs"]
                part[4] += c["logprobs"]["top_logprobs"]
    return parts


def test_a_thousand_settings_among_neighbours():
    """SA10 and the lane in real traffic."""
    bodies = requests()
    with serve.Server(flags=[*COMMON, "--max-seqs", 1, "--threads", 1, "--enable-cuda-graph", "false",
                             "--enable-prefix-cache", "false", "--kv-cache-bytes", SOLO_BYTES]) as solo:
        block_bytes = SOLO_BYTES // int(solo.metric_sum("monograph_kv_blocks"))
        expected = [result(solo, body, stream=False) for body in bodies]
    pool_bytes = 9 * block_bytes  # Two of the longest fit: neighbours preempt each other.
    with serve.Server(flags=[*COMMON, "--max-seqs", 12, "--kv-cache-bytes", pool_bytes]) as server:
        with concurrent.futures.ThreadPoolExecutor(N_CLIENTS) as pool:
            found = list(pool.map(lambda i: result(server, bodies[i], stream=i % 2 == 1), range(N_SETTINGS)))
        for i, (got, wanted) in enumerate(zip(found, expected)):
            assert got == wanted, f"setting {i}, seed {SEED}: {json.dumps(bodies[i])}: {got}, alone {wanted}"
        for name in ("monograph_sampling_outside_graph_total", "monograph_prefill_graph_fallbacks_total",
                     "monograph_decode_graph_misses_total"):
            assert server.metric_sum(name) == 0, name
        n_preempted = server.metric_sum("vllm:num_preemptions_total")
        n_mixed = sum(step["R"] > 1 for step in server.steps())
        print(f"{sum(len(choices) for choices in found)} choices, {n_mixed} steps with company, {n_preempted:g} preemptions")
        assert n_preempted > 0 and n_mixed > N_SETTINGS


if __name__ == "__main__":
    serve.main([test_a_thousand_settings_among_neighbours])
