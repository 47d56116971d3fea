"""Starts `monograph serve` and talks to it: what the end-to-end tests share. Standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("MONOGRAPH_BINARY", ROOT / "build/cpu/monograph"))
TINY = pathlib.Path(os.environ.get("MONOGRAPH_TINY_MODEL", ROOT / "tests/golden/models/llama-gqa"))
FLAGS = os.environ.get("MONOGRAPH_SERVE_FLAGS", "").split()  # of every server: --device cuda
START_SECONDS = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse_sse(lines):
    """The JSON of each event; fails unless the stream ends with [DONE]."""
    done = False
    for line in lines:
        line = line.decode("utf-8").rstrip("\r\n")
        if not line.startswith("data:"):
            continue
        assert not done, f"an event after [DONE]: {line}"
        text = line[5:].strip()
        if text == "[DONE]":
            done = True
        else:
            yield json.loads(text)
    assert done, "the stream ended without [DONE]"


class Server:
    """One running server; `log` holds what it printed, steps() its step log."""

    def __init__(self, model=TINY, flags=(), environment=None):
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory(prefix="monograph-e2e-")
        self.step_log = pathlib.Path(self.folder.name) / "steps.jsonl"
        self.log = open(pathlib.Path(self.folder.name) / "log.txt", "w+")
        command = [BINARY, "serve", "--model", model, "--host", "127.0.0.1", "--port", self.port, "--step-log",
                   self.step_log, *FLAGS, *flags]
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(environment or {})})
        self.wait_ready()

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"serve ended with {self.process.returncode}:\n{self.output()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/health")[0] == 200:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"serve was not ready after {START_SECONDS} s:\n{self.output()}")

    def output(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def connect(self, timeout=300):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path):
        connection = self.connect(timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8")

    def post_raw(self, path, body, headers=None):
        """(status, headers, bytes) of a body sent as it is."""
        connection = self.connect()
        connection.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def post(self, path, body):
        status, headers, data = self.post_raw(path, json.dumps(body))
        return status, headers, json.loads(data.decode("utf-8"))

    def complete(self, **body):
        """A completion that must succeed."""
        status, headers, answer = self.post("/v1/completions", {"model": self.model(), **body})
        assert status == 200, f"{status}: {answer}"
        return answer, headers

    def stream(self, path="/v1/completions", **body):
        """Events of a streamed request that must succeed."""
        connection = self.connect()
        connection.request("POST", path, json.dumps({"model": self.model(), "stream": True, **body}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, f"{response.status}: {response.read()}"
        return list(parse_sse(response))

    def model(self):
        if not hasattr(self, "model_name"):
            self.model_name = json.loads(self.get("/v1/models")[1])["data"][0]["id"]
        return self.model_name

    def metrics(self):
        """name{labels} → value."""
        values = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                key, value = line.rsplit(" ", 1)
                values[key] = float(value)
        return values

    def metric_sum(self, name):
        found = [v for k, v in self.metrics().items() if k.split("{")[0] == name]
        assert found, f"no metric {name}"
        return sum(found)

    def steps(self):
        """The step log so far; a line that is still being written is left out."""
        lines = self.step_log.read_text().split("\n")[:-1] if self.step_log.exists() else []
        return [json.loads(line) for line in lines]

    def stop(self):
        """A server that still runs must end well: a sanitizer's last words, leaks too, make another exit code."""
        try:
            if self.process.poll() is None:
                self.process.terminate()
                code = self.process.wait(timeout=60)
                assert code == 0, f"exit code {code} after SIGTERM:\n{self.output()[-5000:]}"
        finally:
            self.process.kill()
            self.log.close()
            self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def main(tests):
    """Runs the functions by name, or those given as arguments; prints one line each."""
    chosen = sys.argv[1:] or [test.__name__ for test in tests]
    failed = []
    for test in tests:
        if test.__name__ not in chosen:
            continue
        start = time.monotonic()
        try:
            test()
            print(f"ok   {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:  # every test runs, the exit code tells
            failed.append(test.__name__)
            import traceback
            traceback.print_exc()
            print(f"FAIL {test.__name__}: {error}", flush=True)
    sys.exit(f"{len(failed)} failed: {', '.join(failed)}" if failed else 0)
