#!/usr/bin/env python3
"""Signals at any moment of a run with the default model: while it starts, loads, captures, prefills and decodes. `generate`
ends within 1 s, `serve` with exit code 0 within 5 s, and a second signal ends either at once. (issue: CLI)"""
import os
import pathlib
import signal
import subprocess
import time

import serve

MODEL = pathlib.Path(os.environ.get("MONOGRAPH_TEST_MODEL", serve.ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
GENERATE_SECONDS, SERVE_SECONDS, SECOND_SIGNAL_SECONDS = 1.0, 5.0, 0.5
INTERRUPTED = 130  # of `generate`, whichever signal it was
LONG_PROMPT = "The harbour was quiet. " * 1500  # 7,500 tokens: prefill takes seconds.
NO_LIMIT = ["--max-tokens", "100000", "--ignore-eos", "--temperature", "0"]


def start(command, *flags):
    return subprocess.Popen([serve.BINARY, command, "--model", MODEL, "--log-level", "info", *serve.FLAGS, *flags],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def end(process, number, patience=60):
    """Seconds from the signal to the end, and the exit code."""
    began = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=patience)
    return time.monotonic() - began, process.returncode


def moments():
    """From just after exec to well past the ready line, which takes about half a second on two idle cores."""
    return [0.02 + 0.1 * i for i in range(10)]


def slowest(command, flags, limit, codes):
    worst = (0, 0)
    for i, delay in enumerate(moments()):
        number = (signal.SIGINT, signal.SIGTERM)[i % 2]
        process = start(command, *flags)
        time.sleep(delay)
        seconds, code = end(process, number)
        assert code in codes(number), f"{command}, signal {number} after {delay:.2f} s: exit code {code}"
        worst = max(worst, (seconds, delay))
    print(f"{command}: at most {worst[0]:.2f} s, after {worst[1]:.2f} s of run")
    assert worst[0] <= limit, f"{command} took {worst[0]:.2f} s to end, signalled after {worst[1]:.2f} s"


def test_generate_ends_within_a_second():
    # Before it can handle signals the process dies of one, as any program does.
    slowest("generate", ["--prompt", "Once upon a time", *NO_LIMIT], GENERATE_SECONDS, lambda number: (INTERRUPTED, -number))


def test_generate_ends_within_a_second_in_a_long_prefill():
    slowest("generate", ["--raw", "--prompt", LONG_PROMPT, *NO_LIMIT], GENERATE_SECONDS,
            lambda number: (INTERRUPTED, -number))


def test_serve_ends_with_zero():
    """LK02: idle, or while it loads or captures."""
    slowest("serve", ["--port", "0"], SERVE_SECONDS, lambda number: (0, -number))


def test_the_second_signal_ends_at_once():
    """LK02: twice in 10 ms, with a request that runs."""
    with serve.Server(MODEL, flags=["--max-seq-len", 8000]) as server:
        connection = server.connect()
        connection.request("POST", "/v1/completions", '{"prompt": "x", "max_tokens": 7000, "ignore_eos": true}',
                           {"Content-Type": "application/json"})
        while server.metric_sum("vllm:num_requests_running") == 0:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(timeout=60)
        seconds = time.monotonic() - began
        print(f"the second signal: {seconds:.3f} s, exit code {code}")
        assert code in (0, 128 + signal.SIGTERM) and seconds < SECOND_SIGNAL_SECONDS, (code, seconds)


if __name__ == "__main__":
    serve.main([test_generate_ends_within_a_second, test_generate_ends_within_a_second_in_a_long_prefill,
                test_serve_ends_with_zero, test_the_second_signal_ends_at_once])
