#!/usr/bin/env python3
"""Start-up on a GPU: seconds to the first token, what capturing took, and the printed budget of each model.

usage: start_figures.py BINARY RESULT.json [--small MODEL] [--large CONFIG_FOLDER] [--flags "--device cuda"]

  Qwen3-0.6B  random weights: the whole default ladder and the decode graphs (at most 2 s and 300 MiB)
  --small     a file, or a folder with a config.json, which gets random weights: serves within 1.5 s
              (default bench/configs/SmolLM2-135M)
  --large     written as safetensors by make_dummy_model.py into a temporary folder, so that it is in the page cache: first
              token within 5 s (default bench/configs/Qwen3-8B, 16.4 GB of disk; "" leaves it out)

The first token is asked for over HTTP as soon as /health says 200. Marks that are missed are printed; the exit code tells
only whether everything ran.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from prefill_result import ask
from timed_server import TimedServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "bench/configs"
MOST_CAPTURE_MS, MOST_CAPTURE_BYTES, MOST_SMALL_SECONDS, MOST_LARGE_SECONDS = 2000, 300 << 20, 1.5, 5.0


def is_config_alone(model):
    return model.is_dir() and not list(model.glob("*.safetensors"))


def start(arguments, model):
    dummy = ["--load-format", "dummy"] if is_config_alone(model) else []
    with TimedServer(arguments.binary, model, *dummy, *arguments.flags.split(), "--log-level", "info") as server:
        server.complete([5, 6, 7, 8], 1)
        seconds = server.seconds()
        row = {"model": model.name, "weights": "random" if dummy else "of the file", "seconds_to_ready": round(server.seconds_to_ready, 3),
               "seconds_to_first_token": round(seconds, 3), "captured": server.captured(), "memory": server.memory_lines()}
    print(json.dumps(row), flush=True)
    return row


def mark(name, found, most):
    print(f"{name}: {found}, at most {most}{'' if found <= most else ': MISSED'}", flush=True)
    return {"mark": name, "found": found, "at_most": most, "within": found <= most}


def capture_marks(row):
    if not row["captured"]:
        sys.exit(f"the log of {row['model']} names no captured graphs")
    return [mark("capture ms, " + row["model"], sum(family["ms"] for family in row["captured"]), MOST_CAPTURE_MS),
            mark("capture bytes, " + row["model"], sum(family["bytes"] for family in row["captured"]), MOST_CAPTURE_BYTES)]


def large(arguments, folder):
    began = time.monotonic()
    model = pathlib.Path(folder) / pathlib.Path(arguments.large).name
    subprocess.run([sys.executable, ROOT / "tools/make_dummy_model.py", arguments.large, model], check=True)
    print(f"written in {time.monotonic() - began:.0f} s", flush=True)
    return start(arguments, model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--small", type=pathlib.Path, default=CONFIGS / "SmolLM2-135M")
    parser.add_argument("--large", default=str(CONFIGS / "Qwen3-8B"))
    parser.add_argument("--flags", default="--device cuda")
    arguments = parser.parse_args()
    rows = [start(arguments, CONFIGS / "Qwen3-0.6B"), start(arguments, arguments.small)]
    marks = [*capture_marks(rows[0]), mark("seconds to the first token, " + rows[1]["model"],
                                           rows[1]["seconds_to_first_token"], MOST_SMALL_SECONDS)]
    if arguments.large:
        with tempfile.TemporaryDirectory(prefix="monograph-large-") as folder:
            rows.append(large(arguments, folder))
        marks.append(mark("seconds to the first token, " + rows[2]["model"], rows[2]["seconds_to_first_token"], MOST_LARGE_SECONDS))
    result = {"commit": ask("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
              "gpu": ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"), "marks": marks, "rows": rows}
    arguments.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
