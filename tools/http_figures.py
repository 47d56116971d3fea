#!/usr/bin/env python3
"""Times over HTTP as a client sees them: to the first token by prompt length, per token of one sequence, and under load.

usage: http_figures.py BINARY MODEL RESULT.json [--lengths 1,16,64,128,512,2048] [--repetitions 50] [--load 64,512,512,128]
                       [--flags "--load-format dummy --device cuda"]

A fresh server without prefix cache; prompts are random token ids, new in every request; every answer must bring exactly the
asked number of token ids. --load is clients, requests, tokens in, tokens out; "" leaves it out. The client is one thread of
Python, which is what the peers' figures were measured with. Standard library only.
"""
import argparse
import asyncio
import json
import pathlib
import random
import re
import socket
import sys
import time

from prefill_result import ask
from timed_server import TimedServer

EVENT = re.compile(rb'data: (\{.*?\})\r?\n\r?\n', re.S)


class Client:
    def __init__(self, port, vocab_size, seed):
        self.port, self.vocab_size, self.random = port, vocab_size, random.Random(seed)

    def prompt(self, n):
        return [self.random.randrange(self.vocab_size) for _ in range(n)]

    async def complete(self, prompt, n_tokens):
        """Seconds from the request to each piece of the stream that brought a token."""
        body = json.dumps({"prompt": prompt, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                           "return_token_ids": True}).encode()
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n").encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = time.perf_counter()
        writer.write(head + body)
        stamps, pieces = [], []
        while piece := await reader.read(65536):
            pieces.append(piece)
            if b'"token_ids":[' in piece and b'"token_ids":[]' not in piece:
                stamps.append(time.perf_counter() - start)
        writer.close()
        self.check(b"".join(pieces), n_tokens)
        return stamps

    @staticmethod
    def check(answer, n_tokens):
        head, _, body = answer.partition(b"\r\n\r\n")
        choices = [choice for event in EVENT.findall(body) for choice in json.loads(event).get("choices", [])]
        found = sum(len(choice.get("token_ids") or []) for choice in choices)
        if b" 200 " not in head.split(b"\r\n")[0] or found != n_tokens:
            sys.exit(f"asked for {n_tokens} tokens, got {found}: {answer[:600]}")


def quantiles(seconds):
    ordered = sorted(1e3 * s for s in seconds)
    at = lambda part: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)
    return {"p50": at(0.5), "p10": at(0.1), "p99": at(0.99)}


async def first_tokens(client, lengths, repetitions):
    rows = []
    for n in lengths:
        times = [(await client.complete(client.prompt(n), 1))[0] for _ in range(repetitions + 5)][5:]
        rows.append({"tokens": n, "ttft_ms": quantiles(times)})
        print(f"TTFT {n} tokens: {rows[-1]['ttft_ms']}", flush=True)
    return rows


async def one_sequence(client, context, n_tokens):
    stamps = await client.complete(client.prompt(context), n_tokens)
    ms = 1e3 * (stamps[-1] - stamps[0]) / (n_tokens - 1)
    print(f"one sequence behind {context} tokens: {ms:.3f} ms a token", flush=True)
    return {"context": context, "output_tokens": n_tokens, "ms_a_token": round(ms, 3)}


async def load(client, n_clients, n_requests, n_in, n_out):
    prompts, firsts = [client.prompt(n_in) for _ in range(n_requests)], []

    async def work():
        while prompts:
            firsts.append((await client.complete(prompts.pop(), n_out))[0])
    start = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(n_clients)])
    seconds = time.perf_counter() - start
    row = {"clients": n_clients, "requests": n_requests, "input_tokens": n_in, "output_tokens": n_out,
           "seconds": round(seconds, 2), "output_tokens_a_second": round(n_requests * n_out / seconds),
           "ttft_ms": quantiles(firsts)}
    print(f"load: {row}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--lengths", default="1,16,64,128,512,2048")
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--load", default="64,512,512,128")
    parser.add_argument("--flags", default="--load-format dummy --device cuda")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    lengths = [int(n) for n in a.lengths.split(",")]
    flags = [*a.flags.split(), "--enable-prefix-cache=false", "--max-seq-len", max(8192, *lengths)]
    vocab_size = json.loads((a.model / "config.json").read_text())["vocab_size"]
    with TimedServer(a.binary, a.model, *flags) as server:
        client = Client(server.port, vocab_size, a.seed)
        result = {"commit": ask("git", "rev-parse", "--short", "HEAD"), "command": " ".join(server.command),
                  "gpu": ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
                  "model": a.model.name, "repetitions": a.repetitions,
                  "first_token": asyncio.run(first_tokens(client, lengths, a.repetitions)),
                  "decode": asyncio.run(one_sequence(client, 512, 200))}
        if a.load:
            result["load"] = asyncio.run(load(client, *map(int, a.load.split(","))))
    a.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
