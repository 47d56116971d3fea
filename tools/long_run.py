#!/usr/bin/env python3
"""The `long` tier: fuzz targets and soaks, each for as long as one likes, recorded in tests/results/long_runs.md.

  long_run.py [--minutes 10] [--runs N] [NAME...]
                                         names: a fuzz target (gguf, http, ...), prefix_soak, callers, scheduler, mutations

A fuzz target ends after --runs inputs or --minutes, whichever comes first. It needs the preset `fuzz`
(cmake --preset fuzz && cmake --build --preset fuzz), the soaks need `cpu`, `callers` needs `tsan`; all are built as far as they
are needed. Every run adds a row with commit, seed and counts; a finding keeps its input under build/fuzz/findings and makes the exit
code 1."""
import argparse
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests/results/long_runs.md"
HEAD = """# Long runs

Added to by `tools/long_run.py`, one row a run. Fuzz targets: clang 14, ASan and UBSan, the whole input space of one parser. Soaks: the
`cpu` preset where no other is named. "none" means that nothing crashed, hung, leaked, differed or went beyond 3 GB.

| date | commit | what | seed | amount | time | corpus, coverage | findings |
|---|---|---|---|---|---|---|---|
"""
MODELS = "tests/golden/models"
# target -> (glob of first inputs, longest input)
FUZZ = {
    "gguf": (f"{MODELS}/*.gguf", 4096), "safetensors": (f"{MODELS}/*/*.safetensors", 4096),
    "config_json": (f"{MODELS}/*/*config.json", 4096), "tokenizer_json": (f"{MODELS}/*/tokenizer.json", 24000),
    "tokenizer_stream": (None, 300), "chat_template": (f"{MODELS}/*/chat_template.jinja", 2000), "http": (None, 2000),
    "api_body": (None, 2000)}
HTTP_SEEDS = [
    "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\nExpect: 100-continue\r\n\r\n{\"prompt\":\"a\"}",
    "POST /tokenize HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n{\"a\":\r\n2\r\n1}\r\n0\r\nX: y\r\n\r\n"]
BODY_SEEDS = [
    {"prompt": "a", "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 7, "n": 2},
    {"prompt": [[1, 2], [3]], "stop": ["a", "b"], "stop_token_ids": [1], "logit_bias": {"5": 1.5}, "logprobs": 3},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": None,
     "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}],
     "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2,
     "chat_template_kwargs": {"a": 1}},
    {"prompt": "a", "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1, "min_tokens": 1, "echo": False,
     "ignore_eos": True, "return_token_ids": True, "cache_salt": "x", "request_id": "y"},
    {"tokens": [1, 2, 3]}]


def first_inputs(name, corpus):
    """Every run starts from these and from what earlier runs kept."""
    corpus.mkdir(parents=True, exist_ok=True)
    pattern, longest = FUZZ[name]
    for i, path in enumerate(sorted(ROOT.glob(pattern)) if pattern else []):
        (corpus / f"seed{i}").write_bytes(path.read_bytes()[:longest])
    texts = {"http": HTTP_SEEDS, "api_body": map(json.dumps, BODY_SEEDS)}.get(name, [])
    for i, text in enumerate(texts):
        (corpus / f"seed{i}").write_bytes(text.encode())


def build(preset, target):
    if not (ROOT / "build" / preset / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", preset, "--log-level=WARNING"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", ROOT / "build" / preset, "--target", target], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


def fuzz(name, args, seed):
    build("fuzz", f"{name}_fuzz")
    corpus, findings = ROOT / "build/fuzz/corpus" / name, ROOT / "build/fuzz/findings"
    findings.mkdir(parents=True, exist_ok=True)
    first_inputs(name, corpus)
    command = [ROOT / f"build/fuzz/tests/{name}_fuzz", corpus, f"-seed={seed}", f"-max_len={FUZZ[name][1]}", "-timeout=60",
               "-rss_limit_mb=3000", f"-max_total_time={int(args.minutes * 60)}", f"-artifact_prefix={findings}/{name}-",
               "-print_final_stats=1"]
    if args.runs:
        command.append(f"-runs={args.runs}")
    run = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", run.stderr))
    progress = re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", run.stderr)
    coverage = f"{progress[-1][1]} inputs, {progress[-1][0]} edges" if progress else "?"
    if run.returncode:
        (findings / f"{name}.log").write_text(run.stderr[-100_000:])
    # Keeps the corpus small: only inputs that reach something of their own.
    kept = corpus.with_suffix(".kept")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    merged = subprocess.run([command[0], "-merge=1", kept, corpus], cwd=ROOT, capture_output=True, check=False)
    if merged.returncode == 0:
        shutil.rmtree(corpus)
        kept.rename(corpus)
    amount = f"{int(stats.get('number_of_executed_units', 0)):,} inputs"
    return f"`{name}_fuzz`", amount, coverage, "none" if run.returncode == 0 else f"build/fuzz/findings/{name}.log"


def soak(program, test, environment, amount_pattern, preset="cpu"):
    build(preset, program)
    run = subprocess.run([ROOT / "build" / preset / "tests" / program, f"--gtest_filter={test}"], cwd=ROOT, text=True,
                         env={**os.environ, **environment}, capture_output=True, check=False)
    amount = re.search(amount_pattern, run.stdout)
    settings = " ".join(f"{k}={v}" for k, v in environment.items() if k != "TEST_SEED")
    if run.returncode:
        print(run.stdout[-5000:])
    named = f"`{test}` {settings}" + (f", {preset}" if preset != "cpu" else "")
    return named, amount[0].replace("\n", ", ") if amount else "?", "", "none" if run.returncode == 0 else "failed"


def soaks(args, seed):
    seconds = int(args.minutes * 60)
    return {
        "prefix_soak": lambda: soak("engine_test", "PrefixSoak.*", {"MONOGRAPH_SOAK_SECONDS": str(seconds), "TEST_SEED": str(seed)},
                                    r"\d+ requests, .*\n.* at the end"),
        "callers": lambda: soak("engine_test", "BugLog.KV22*", {"MONOGRAPH_CALLER_REQUESTS": str((args.runs or 250_000) // 16)},
                                r"16 callers of .*", "tsan"),
        "scheduler": lambda: soak("engine_test", "Scheduler.R16_R22*", {"MONOGRAPH_TEST_SEEDS": str(args.runs // 400 or 2500)},
                                  r"\d+ seeds, .*"),
        "mutations": lambda: soak("engine_test", "Mutations.*", {"TEST_MUTATIONS": str(args.runs or 20000), "TEST_SEED": str(seed)},
                                  r"\d+ tests? .*ran")}


def record(row):
    if not RESULTS.exists():
        RESULTS.write_text(HEAD)
    with open(RESULTS, "a") as file:
        file.write("| " + " | ".join(row) + " |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    others = soaks(args, args.seed)
    names = args.names or [*FUZZ, *others]
    if unknown := [name for name in names if name not in FUZZ and name not in others]:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join([*FUZZ, *others])}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    failed = False
    for name in names:
        start = time.monotonic()
        what, amount, coverage, findings = others[name]() if name in others else fuzz(name, args, args.seed)
        seconds = f"{time.monotonic() - start:.0f} s"
        record([datetime.date.today().isoformat(), commit, what, str(args.seed), amount, seconds, coverage, findings])
        print(f"{name}: {amount} in {seconds}, findings: {findings}", flush=True)
        failed |= findings != "none"
    sys.exit(failed)


if __name__ == "__main__":
    main()
