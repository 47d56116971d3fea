"""`monograph serve` as the measuring tools start it: fresh, on a free port, and timed from its start. Standard library only."""
import http.client
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time

START_SECONDS = 300
CAPTURED = re.compile(r"(\w+) graphs: (\d+) buckets up to (\d+) captured in (\d+) ms, (\d+) bytes")


class TimedServer:
    """seconds_to_ready: from the program's start to the first 200 of /health."""

    def __init__(self, binary, model, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.NamedTemporaryFile("w+", prefix="monograph-serve-")
        self.command = [str(part) for part in (binary, "serve", "--model", model, "--port", self.port, *flags)]
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() > self.started + START_SECONDS:
                self.stop()
                raise SystemExit(f"{' '.join(self.command)}: not ready\n{self.output()[-2000:]}")
            time.sleep(0.002)
        self.seconds_to_ready = self.seconds()

    def seconds(self):
        return time.monotonic() - self.started

    def healthy(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def complete(self, ids, n_tokens):
        """The token ids of an answer, which must be as many as asked for."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = {"prompt": ids, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        tokens = answer["choices"][0]["token_ids"] if "choices" in answer else []
        if len(tokens) != n_tokens:
            raise SystemExit(f"asked for {n_tokens} tokens: {answer}")
        return tokens

    def output(self):
        return pathlib.Path(self.log.name).read_text()

    def captured(self):
        """What the log says of each family's graphs; needs --log-level info."""
        return [{"family": family, "buckets": int(n), "largest": int(largest), "ms": int(ms), "bytes": int(size)}
                for family, n, largest, ms, size in CAPTURED.findall(self.output())]

    def memory_lines(self):
        return [line[line.index("memory"):] for line in self.output().splitlines() if "memory budget: " in line or "memory: " in line]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
