#!/usr/bin/env python3
"""Checks that includes only look down the layers of ARCHITECTURE.md; prints file, line and rule for each offence."""
import pathlib
import re
import sys
import tempfile

# folder -> folders it may include. Every folder may also use base/ and the value headers of include/monograph/.
LAYERS = {
    "base": [],
    "device": [],
    "comm": ["device"],
    "ops": ["comm", "device"],
    "model": ["ops", "comm", "device"],
    "cache": ["ops", "device"],
    "graph": ["model", "ops", "comm", "device"],
    "text": [],
    "engine": ["graph", "cache", "text", "model", "ops", "comm", "device"],
    "server": [],
    "apps": ["server", "graph", "cache", "model", "ops", "device"],
}
USES_ENGINE_HEADER = {"engine", "server", "apps"}
# cache/ sees ops/ only through the KvLayer views.
ONLY_HEADER = {("cache", "ops"): {"ops/kv_layer.h"}}
CUDA_FRIENDS = {("comm", "device"), ("ops", "device")}  # comm/cuda and ops/cuda use device/cuda for handles and streams
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nccl|nvrtc|cooperative_groups|mma\.h)")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')
CUDA_IF = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*(MONOGRAPH_CUDA|__CUDACC__|__CUDA_ARCH__)")


def table():
    """The table as ARCHITECTURE.md prints it."""
    rows = ["| layer | may include |", "|---|---|"]
    rows += [f"| `{name}` | {', '.join(f'`{u}`' for u in uses) or 'nothing but base'} |" for name, uses in LAYERS.items()]
    return "\n".join(rows)


def folder_of(path, root):
    parts = path.relative_to(root).parts
    return parts[1] if parts[0] == "src" else parts[0]


def check_include(path, folder, included, errors, where):
    in_cuda = "cuda" in path.parts
    if CUDA_HEADER.match(included) and not in_cuda:
        errors.append(f"{where}: {included}: CUDA and NCCL headers only inside a folder named cuda/")
    head = included.split("/")[0]
    if included == "monograph/engine.h" and folder not in USES_ENGINE_HEADER:
        errors.append(f"{where}: {folder}/ may not include monograph/engine.h")
    if head not in LAYERS or head == folder:
        return
    if head != "base" and head not in LAYERS[folder]:
        errors.append(f"{where}: {folder}/ may not include {head}/ ({included})")
    only = ONLY_HEADER.get((folder, head))
    if only and included not in only:
        errors.append(f"{where}: {folder}/ may include of {head}/ only {', '.join(sorted(only))}")
    if "/cuda/" in included and not (in_cuda and (folder, head) in CUDA_FRIENDS):
        errors.append(f"{where}: {included} is private to {head}/")


def check_file(path, root, errors):
    folder = folder_of(path, root)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(root)}:{number}"
        if CUDA_IF.match(line) and "cuda" not in path.parts and path.name not in ("backend.cpp", "portable.h"):
            errors.append(f"{where}: #if for CUDA only in ops/backend.cpp")
        match = INCLUDE.match(line)
        if match and folder in LAYERS:
            check_include(path, folder, match.group(1), errors, where)


def check_folders(root, errors):
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()} | {"apps"}
    for name in sorted(folders - LAYERS.keys()):
        errors.append(f"src/{name}: a folder without a row in tools/check_layers.py")
    for name in sorted(LAYERS.keys() - folders):
        errors.append(f"tools/check_layers.py: row {name} has no folder")
    page = root / "ARCHITECTURE.md"
    if page.exists() and table() not in page.read_text():
        errors.append("ARCHITECTURE.md: its layer table differs from tools/check_layers.py --table")


def check_cycles(errors):
    def visit(name, trail):
        if name in trail:
            errors.append("cycle between folders: " + " -> ".join(trail[trail.index(name):] + [name]))
            return
        for used in LAYERS[name]:
            visit(used, trail + [name])
    for name in LAYERS:
        visit(name, [])


def check(root):
    errors = []
    check_cycles(errors)
    check_folders(root, errors)
    for top in ("src", "apps", "include"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                check_file(path, root, errors)
    return errors


def self_test():
    """A checker that cannot fail checks nothing: each rule must find its own offence."""
    offences = {
        "src/base/a.h": '#include "engine/loop.h"',
        "src/graph/b.cpp": '#include "cache/kv_cache.h"',
        "src/cache/c.cpp": '#include "ops/ops.h"',
        "src/text/d.cpp": '#include <cuda_runtime.h>',
        "src/ops/e.cpp": "#ifdef MONOGRAPH_CUDA",
        "src/model/f.cpp": '#include "monograph/engine.h"',
        "src/engine/g.cpp": '#include "device/cuda/handles.h"',
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in LAYERS:
            (root / ("apps" if name == "apps" else f"src/{name}")).mkdir(parents=True, exist_ok=True)
        (root / "include").mkdir()
        for name, line in offences.items():
            (root / name).write_text(line + "\n")
        (root / "src/extra").mkdir()
        found = check(root)
        missed = [name for name in list(offences) + ["src/extra"] if not any(e.startswith(name) for e in found)]
        if missed:
            sys.exit(f"check_layers self-test: nothing found in {', '.join(missed)}")


if __name__ == "__main__":
    if "--table" in sys.argv:
        print(table())
    elif "--self-test" in sys.argv:
        self_test()
    else:
        problems = check(pathlib.Path(__file__).resolve().parent.parent)
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
