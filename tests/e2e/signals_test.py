#!/usr/bin/env python3
"""Signals at any moment of a run: while it starts, loads, captures, prefills and decodes. `generate` ends within 1 s, `serve`
with exit code 0 within 5 s, and a second signal ends either at once. (issue: CLI)"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
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


class Frozen:
    """A start that is stopped once it has printed `after`, or `later` seconds on, and before it prints `before`: at a known
    point of its work, however fast the machine. `output` is what it has printed."""

    def __init__(self, command, model, *flags, after, before, later=0):
        self.process = subprocess.Popen([serve.BINARY, command, "--model", model, "--log-level", "info", *serve.FLAGS, *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.fd, self.output = self.process.stdout.fileno(), ""
        while after not in self.output:
            assert self.read(), f"it ended before it printed {after}:\n{self.output}"
        time.sleep(later)
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        os.set_blocking(self.fd, False)
        with contextlib.suppress(BlockingIOError):
            while self.read():
                pass
        os.set_blocking(self.fd, True)
        assert before not in self.output, f"it was too fast to be stopped before it printed {before}:\n{self.output}"

    def read(self):
        data = os.read(self.fd, 1 << 16).decode()
        self.output += data
        return data

    def end(self, *numbers, patience=60):
        """Seconds from the signals, in the order of their numbers, to the end; the exit code."""
        for number in numbers:
            self.process.send_signal(number)
        began = time.monotonic()
        self.process.send_signal(signal.SIGCONT)
        while self.read():
            pass
        code = self.process.wait(timeout=patience)
        return time.monotonic() - began, code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


COMMANDS = {"serve": (["--port", "0"], SERVE_SECONDS, 0), "generate": (["--prompt", "x"], GENERATE_SECONDS, INTERRUPTED)}


def while_loading(command):
    """1.2 GB of weights are being made and packed."""
    return Frozen(command, serve.ROOT / "bench/configs/Qwen3-0.6B", "--load-format", "dummy", *COMMANDS[command][0],
                  after="loading weights: 20 %", before="graphs:")


@contextlib.contextmanager
def while_capturing(command):
    """2,048 layers are being recorded 64 times."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64, "hidden_size": 16,
            "intermediate_size": 16, "num_hidden_layers": 2048, "num_attention_heads": 1, "num_key_value_heads": 1,
            "head_dim": 16, "max_position_embeddings": 128, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}))
        with Frozen(command, folder, "--load-format", "dummy", "--kv-cache-bytes", "100000000", "--block-size", "16",
                    "--prefill-cuda-graph-capture-config", ",".join(str(2 * i) for i in range(1, 65)), *COMMANDS[command][0],
                    after="decode graphs:", before="extend graphs:") as frozen:
            yield frozen


def while_a_bucket_is_timed(command):
    """Six steps of 2,048 tokens, which take seconds, and nothing is asked between them."""
    return Frozen(command, MODEL, "--prefill-graph-policy", "measured", "--prefill-cuda-graph-capture-config", "2048",
                  *COMMANDS[command][0], after="extend graphs:", before="memory:", later=0.3)


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
    """LK02: idle, or wherever its start is."""
    slowest("serve", ["--port", "0"], SERVE_SECONDS, lambda number: (0, -number))


def ends_cleanly(moment, never):
    """Each signal, each command; what would have come next in the log is never printed."""
    for command, (_, limit, expected) in COMMANDS.items():
        for number in (signal.SIGINT, signal.SIGTERM):
            with moment(command) as frozen:
                seconds, code = frozen.end(number)
                print(f"{command}, signal {number} {moment.__name__}: {seconds:.2f} s, exit code {code}")
                assert code == expected, f"exit code {code}:\n{frozen.output}"
                assert seconds <= limit, f"{command} took {seconds:.2f} s to end"
                assert never not in frozen.output, frozen.output


def test_a_signal_while_weights_load():
    """LK02: during load."""
    ends_cleanly(while_loading, "graphs:")


def test_a_signal_while_graphs_are_captured():
    """LK02: during capture."""
    ends_cleanly(while_capturing, "extend graphs:")


def test_a_signal_while_buckets_are_timed():
    ends_cleanly(while_a_bucket_is_timed, "memory:")


def test_the_second_signal_ends_a_start_at_once():
    """The first alone would wait for the step that runs; the exit code tells that the second ended it."""
    for command in COMMANDS:
        with while_a_bucket_is_timed(command) as frozen:
            seconds, code = frozen.end(signal.SIGINT, signal.SIGTERM)
            print(f"{command}: the second signal: {seconds:.3f} s, exit code {code}")
            assert code == 128 + signal.SIGTERM and seconds < SECOND_SIGNAL_SECONDS, (code, seconds, frozen.output)


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
                test_serve_ends_with_zero, test_a_signal_while_weights_load, test_a_signal_while_graphs_are_captured,
                test_a_signal_while_buckets_are_timed, test_the_second_signal_ends_a_start_at_once,
                test_the_second_signal_ends_at_once])
