#!/usr/bin/env python3
"""Start-up and memory of the program: seconds from start to the first token, and resident memory against its bound.

  measure_start.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf --monograph build/cpu/monograph --out bench/results/cpu

The first token is the first byte that `generate` writes, with the file in the page cache. The bound on memory is file
x 1.1 + what the start-up report prints for activations, logits, staging and KV + 64 MB; it is read after a prompt of
1,500 tokens and 64 tokens of output, from the peak that the kernel kept."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED_SECONDS = 2.0
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def generate(arguments, prompt, n_tokens, *more):
    command = [arguments.monograph, "generate", "--model", arguments.model, "--prompt", prompt, "--raw", "--max-tokens",
               n_tokens, "--temperature", 0, "--ignore-eos", "--threads", arguments.threads, *more]
    return [str(part) for part in command]


def seconds_to_first_token(command):
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = process.stdout.read(1)
    seconds = time.monotonic() - start
    process.stdout.read()
    if process.wait() != 0 or not first:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}, first byte {first}")
    return seconds


def printed_bytes(log, name):
    found = re.search(rf"{name} ([\d.]+) (\w+)", log)
    if not found:
        sys.exit(f"the start-up report has no '{name}':\n{log[-2000:]}")
    return float(found[1]) * UNITS[found[2]]


def memory(arguments):
    """(peak resident bytes, bound, the report's line)"""
    command = generate(arguments, "The river " * 750, 64, "--log-level", "info")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        sys.exit(f"{' '.join(command)[:200]}: status {status}\n{log[-2000:]}")
    line = next(line for line in log.splitlines() if "memory: weights" in line)
    parts = sum(printed_bytes(line, name) for name in ("activations, logits and staging", "scratch", "KV pool"))
    bound = arguments.model.stat().st_size * 1.1 + parts + 64e6
    return usage.ru_maxrss * 1024, bound, line[line.index("memory:"):]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--monograph", type=pathlib.Path, default=ROOT / "build/cpu/monograph")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/cpu")
    arguments = parser.parse_args()
    arguments.model.read_bytes()  # into the page cache
    seconds = [seconds_to_first_token(generate(arguments, "Hello", 2)) for _ in range(arguments.rounds)]
    peak, bound, line = memory(arguments)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    report = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "commit": commit.stdout.strip(),
              "model": arguments.model.name, "threads": arguments.threads, "load": os.getloadavg()[0],
              "seconds_to_first_token": {"median": round(statistics.median(seconds), 3), "wanted": WANTED_SECONDS,
                                         "samples": [round(s, 3) for s in seconds]},
              "resident": {"peak_bytes": peak, "bound_bytes": round(bound), "within": peak <= bound, "report": line}}
    arguments.out.mkdir(parents=True, exist_ok=True)
    target = arguments.out / (time.strftime("%Y-%m-%d", time.gmtime()) + "-start.json")
    target.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
