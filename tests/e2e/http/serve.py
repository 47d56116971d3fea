"""Starts `monograph serve` for a test and stops it; or uses a server that already runs. Standard library only."""
import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--base-url", help="a server that runs already, as http://127.0.0.1:8000")
    parser.add_argument("--binary", default=str(ROOT / "build/cpu/monograph"))
    parser.add_argument("--model", default=str(ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    return parser.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A context: the server is ready inside it, and gone, with exit code 0, after it."""

    def __init__(self, args, *flags):
        self.args, self.flags = args, flags
        self.process = None

    def __enter__(self):
        if self.args.base_url:
            self.port = int(self.args.base_url.rstrip("/").rsplit(":", 1)[1])
            self.step_log = None
            return self
        for path in (self.args.binary, self.args.model):
            if not os.path.exists(path):
                sys.exit(f"{path}: not there; `make test` builds and fetches it")
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        self.step_log = os.path.join(self.folder.name, "steps.jsonl")
        self.stderr = open(os.path.join(self.folder.name, "stderr"), "w+")
        command = [self.args.binary, "serve", "--model", self.args.model, "--port", str(self.port),
                   "--step-log", self.step_log, *self.flags]
        self.process = subprocess.Popen(command, stderr=self.stderr, stdout=subprocess.DEVNULL)
        self.wait_ready()
        return self

    def wait_ready(self, patience=180):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.process.poll() is not None:
                sys.exit(f"serve ended with {self.process.returncode}:\n{self.errors()}")
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        sys.exit(f"serve was not ready after {patience} s:\n{self.errors()}")

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def __exit__(self, kind, value, trace):
        if not self.process:
            return
        if kind:
            print(self.errors()[-4000:], file=sys.stderr)
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.stderr.close()
        self.folder.cleanup()
        assert kind or code == 0, f"serve ended with {code}"

    # --- Requests ---

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()

    def post(self, path, body):
        """Status, headers and parsed body."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), json.loads(response.read())

    def stream(self, path, body):
        """Headers and every chunk of a stream; checks that it ends as it should."""
        connection = self.connect()
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, text
        events = [e for e in text.split("\n\n") if e and not e.startswith(":")]
        assert all(e.startswith("data: ") for e in events), text
        assert events[-1] == "data: [DONE]", events[-1]
        return dict(response.getheaders()), [json.loads(e[6:]) for e in events[:-1]]

    def metric(self, name, labels=""):
        """The sum of a metric's samples whose labels contain `labels`."""
        total, found = 0.0, False
        for line in self.get("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{")[0] == name and labels in head:
                total, found = total + float(value), True
        assert found, f"no metric {name} {labels}"
        return total

    def steps(self):
        with open(self.step_log) as f:
            return [json.loads(line) for line in f]


def run(tests, server):
    """Runs functions in order; the first failure ends the program with its trace."""
    for test in tests:
        start = time.monotonic()
        test(server)
        print(f"ok {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
