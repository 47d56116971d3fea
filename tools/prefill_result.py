#!/usr/bin/env python3
"""Makes a result file of `monograph bench prefill --output json`: what was measured where, and the rows that are compared.

usage: prefill_result.py ROWS.json LIMITS.json COMMAND RESULT.json

LIMITS.json is bench_limits'. Commit, driver and clocks are asked of git and nvidia-smi. Times are medians in
microseconds, with _p10 and _p99 beside them: graph_us and eager_us by device events around the step's work, host_us from
a built batch to the launch's return, library_ttft_us and http_ttft_us from the request to its first token.
"""
import json
import subprocess
import sys

TIMES = ("graph_us", "eager_us", "host_us", "eager_host_us", "step_us", "library_ttft_us", "http_ttft_us")


def ask(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def row_of(measured):
    row = {"tokens": measured["n_prompt"], "bucket": measured["bucket"], "status": measured["status"],
           "floor_us": measured["floor_us"], "percent_of_floor": measured["percent_of_floor"]}
    for name in TIMES:
        for suffix in ("", "_p10", "_p99"):
            row[name + suffix] = measured[name + suffix]
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    rows_file, limits_file, command, result_file = sys.argv[1:]
    rows = json.load(open(rows_file))
    limits = json.load(open(limits_file))
    gpu = ask("nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader")
    name, driver, *clocks = gpu.split(", ") if ", " in gpu else [gpu, "unknown"]
    result = {"commit": ask("git", "rev-parse", "--short", "HEAD"), "command": command, "gpu": name, "driver": driver,
              "clocks": ", ".join(clocks), "bw_tb_s": limits["bw_tb_s"], "tflop_s": limits.get("tflop_s"),
              "model": rows[0]["model"], "repetitions": len(rows[0]["samples_us"]), "rows": [row_of(r) for r in rows]}
    with open(result_file, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
