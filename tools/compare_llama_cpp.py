#!/usr/bin/env python3
"""Speed against llama.cpp on this machine's CPU: same file, same threads, in turn, medians.

  compare_llama_cpp.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf --monograph build/cpu/monograph --out bench/results/cpu

llama.cpp comes from the source distribution of llama-cpp-python (pinned; fetched through pip) and is built once into
.cache/llama.cpp for this CPU. Other types of the model are written beside it by requantise.py. Each round runs
llama-bench, then `monograph bench`, once each; the numbers are medians over the rounds. A ratio counts only if llama.cpp
reached 85 % of the figures known from comparable cores. Needs numpy and gguf for the other types."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SDIST = "llama_cpp_python-0.3.36"
TESTS = [("pp128", 128, 0), ("pp512", 512, 0), ("tg64", 0, 64)]
# Tokens per second of llama.cpp on two AVX-512 cores, and the ratio wanted: (prefill, decode).
REFERENCE = {"Q4_1": (215, 84), "Q8_0": (420, 67), "BF16": (420, 53)}
WANTED = {"Q4_1": (1.0, 1.0), "Q8_0": (0.7, 0.9), "BF16": (0.7, 0.9)}
OTHER_TYPES = (None, 0.5)  # no type decodes below half of llama.cpp's speed
REACHED = 0.85


# ---- llama.cpp

def fetch_sdist(folder):
    archive = folder / f"{SDIST}.tar.gz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        name, version = SDIST.rsplit("-", 1)
        run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:",
             f"{name.replace('_', '-')}=={version}", "--dest", folder])
    return archive


def build_llama_bench(folder):
    binary = folder / "build/bin/llama-bench"
    if binary.exists():
        return binary
    archive = fetch_sdist(ROOT / ".cache")
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    run(["cmake", "-S", folder / SDIST / "vendor/llama.cpp", "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
         "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
         "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_TOOLS=ON"])
    run(["cmake", "--build", folder / "build", "--target", "llama-bench", "-j", str(os.cpu_count())])
    return binary


def llama_command(binary, model, threads, n_prompt, n_gen):
    return [binary, "-m", model, "-t", threads, "-p", n_prompt, "-n", n_gen, "-r", 1, "-o", "json"]


def monograph_command(binary, model, threads, n_prompt, n_gen):
    """A replayed step of n_prompt tokens, or 64 replayed decode steps at a context of 128 tokens."""
    what = ["prefill", "--prompt-lengths", n_prompt, "--repetitions", 1] if n_prompt else [
        "decode", "--batch-sizes", 1, "--repetitions", n_gen // 8]
    return [binary, "bench", *what, "--model", model, "--threads", threads, "--output", "json"]


def tokens_per_second(command):
    """The one test's rate; both programs print llama-bench's JSON."""
    report = json.loads(run(command))
    if len(report) != 1:
        sys.exit(f"{command[0]}: expected one test, got {len(report)}")
    return float(report[0]["avg_ts"]), report[0]


# ---- Measuring

def run(command):
    command = [str(part) for part in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def model_of_type(source, kind):
    """The same model with its matrices in type `kind`; made beside the source if it is not there."""
    if kind == source.stem.rsplit(".", 1)[-1]:
        return source
    target = source.with_name(source.name.replace(source.stem.rsplit(".", 1)[-1], kind))
    if not target.exists():
        run([sys.executable, ROOT / "tools/requantise.py", source, kind, target])
    return target


def measure(arguments, llama, kind):
    model = model_of_type(arguments.model, kind)
    rows = []
    for test, n_prompt, n_gen in TESTS:
        if arguments.tests and test not in arguments.tests.split(","):
            continue
        samples, reports = {"llama.cpp": [], "monograph": []}, {}
        commands = {"llama.cpp": llama_command(llama, model, arguments.threads, n_prompt, n_gen),
                    "monograph": monograph_command(arguments.monograph, model, arguments.threads, n_prompt, n_gen)}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                rate, reports[name] = tokens_per_second(command)
                samples[name].append(round(rate, 2))
        if not replayed(reports["monograph"]):
            sys.exit(f"{kind} {test}: Monograph did not replay: {reports['monograph']}")
        rows.append(judge(kind, model, test, n_gen > 0, samples, commands, reports))
        print("{type:5} {test:6} llama.cpp {llama_median:8.1f}  monograph {monograph_median:8.1f}  ratio {ratio:.2f}"
              .format(**rows[-1]), flush=True)
    return rows


def judge(kind, model, test, decode, samples, commands, reports):
    theirs, ours = (statistics.median(samples[name]) for name in ("llama.cpp", "monograph"))
    wanted = WANTED.get(kind, OTHER_TYPES)[decode]
    reference = REFERENCE.get(kind, (None, None))[decode]
    return {"type": kind, "file": model.name, "file_bytes": model.stat().st_size, "test": test,
            "llama_median": theirs, "monograph_median": ours, "ratio": round(ours / theirs, 3), "wanted": wanted,
            "reached": wanted is None or ours >= wanted * theirs, "llama_reference": reference,
            "ratio_counts": reference is None or theirs >= REACHED * reference, "samples": samples,
            "commands": {k: " ".join(shown(part) for part in v) for k, v in commands.items()},
            "llama_build": reports["llama.cpp"].get("build_commit"), "monograph_replayed": replayed(reports["monograph"]),
            "monograph_ttft_us": reports["monograph"].get("library_ttft_us")}


def replayed(report):
    return report.get("status") == "replayed" or report.get("replayed") is True


def shown(part):
    """Paths as a reader of the report would type them."""
    part = str(part)
    return part.replace(str(ROOT) + "/", "") if part.startswith(str(ROOT)) else (
        pathlib.Path(part).name if part.startswith("/") else part)


# ---- The report

def cpu_name():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    flags = next((line.split(":", 1)[1].split() for line in info.splitlines() if line.startswith("flags")), [])
    return model, sorted(f for f in flags if f.startswith(("avx", "fma")))


def describe(arguments):
    model, flags = cpu_name()
    commit = run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"]).strip()
    dirty = bool(run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"]).strip())
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "command": "tools/compare_llama_cpp.py " + " ".join(shown(a) for a in sys.argv[1:]),
            "commit": commit + ("+changes" if dirty else ""), "llama_cpp": f"from {SDIST}, built for this CPU, Release",
            "cpu": model, "cpu_flags": flags, "cores": os.cpu_count(), "threads": arguments.threads,
            "system": platform.platform(), "load_before": os.getloadavg()[0], "rounds": arguments.rounds}


def markdown(report):
    lines = [f"# Speed against llama.cpp, {report['date']}", "",
             f"`{report['command']}`", "",
             f"Commit {report['commit']}; {report['llama_cpp']}. {report['cpu']}, {report['cores']} cores, "
             f"{report['threads']} threads, load {report['load_before']:.2f} before the run. Tokens per second, medians "
             f"of {report['rounds']} runs each, in turn. Tokenization and sampling are not in llama-bench's numbers; "
             f"Monograph's replays hold the LM head and greedy sampling. Decode: llama-bench from an empty context, "
             f"Monograph at a context of 128 tokens.", "",
             "| type | test | llama.cpp | Monograph | ratio | wanted | reached | known figure | ratio counts |",
             "|---|---|---:|---:|---:|---:|---|---:|---|"]
    for row in report["results"]:
        lines.append("| {type} | {test} | {llama_median:.1f} | {monograph_median:.1f} | {ratio:.2f} | {0} | {1} | {2} | "
                     "{3} |".format(row["wanted"] or "", yes(row["reached"]), row["llama_reference"] or "",
                                    yes(row["ratio_counts"]), **{k: row[k] for k in (
                                        "type", "test", "llama_median", "monograph_median", "ratio")}))
    return "\n".join(lines) + "\n"


def yes(value):
    return "yes" if value else "no"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--monograph", type=pathlib.Path, default=ROOT / "build/cpu/monograph")
    parser.add_argument("--llama-bench", type=pathlib.Path, help="a built one; default: built into .cache")
    parser.add_argument("--types", default="Q4_1,Q8_0,BF16")
    parser.add_argument("--tests", help="some of " + ",".join(test for test, _, _ in TESTS) + "; default: all")
    parser.add_argument("--name", default="compare", help="end of the report's file name")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/cpu")
    arguments = parser.parse_args()
    if arguments.rounds < 5:
        parser.error(f"--rounds {arguments.rounds}: medians need at least 5")
    llama = arguments.llama_bench or build_llama_bench(ROOT / ".cache/llama.cpp")
    report = describe(arguments)
    report["results"] = [row for kind in arguments.types.split(",") for row in measure(arguments, llama, kind)]
    report["load_after"] = os.getloadavg()[0]
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / (time.strftime("%Y-%m-%d", time.gmtime()) + "-" + arguments.name)
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(report))
    print(markdown(report))


if __name__ == "__main__":
    main()
