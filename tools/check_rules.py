#!/usr/bin/env python3
"""Rules that a compiler does not see. One rate limiter for every log line that repeats (S-89); status names written once, in one
file (S-127); CMake's libraries use exactly the layers of ARCHITECTURE.md's table (S-114). Prints file, line and rule."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITER = "src/base/log.h"
NAMES = "src/base/status.cpp"
# A test for a power of two or a multiple, as a home-made limiter has it. Sizes and counts of other kinds are listed here.
POWER = re.compile(r"(\w+) & \(\1 - 1\)")
LAYER = re.compile(r"^monograph_layer\((\w+)([^)]*)\)", re.M)
TABLE = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.M)
SOURCES = ("src/**/*.cpp", "src/**/*.h", "src/**/*.cu", "src/**/*.cuh", "apps/*.cpp", "apps/*.h")


def status_names(root):
    """All but `replayed`, which is also the name of a flag."""
    return [name for name in re.findall(r'^    "(\w+)",$', (root / NAMES).read_text(), re.M) if name != "replayed"]


def sources(root):
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            yield path.relative_to(root).as_posix(), path.read_text().splitlines()


def repeated_helpers(root):
    names = re.compile('"(' + "|".join(status_names(root)) + ')"')
    for file, lines in sources(root):
        for number, line in enumerate(lines, 1):
            if file != LIMITER and POWER.search(line) and "log" in "".join(lines[max(0, number - 4):number + 3]).lower():
                yield f"{file}:{number}: a rate limiter besides Tick of {LIMITER} (S-89)"
            if file != NAMES and names.search(line):
                yield f"{file}:{number}: a status as text; to_string(PrefillStatus) has it (S-127)"


def link_lists(root):
    rows = dict(TABLE.findall((root / "ARCHITECTURE.md").read_text()))
    for name, words in LAYER.findall((root / "CMakeLists.txt").read_text()):
        linked = {word for word in words.split() if word in rows} - {"base"}
        allowed = set(re.findall(r"`(\w+)`", rows.get(name, ""))) - {"base"}
        if linked != allowed:
            yield (f"CMakeLists.txt: monograph_layer({name}) uses {sorted(linked)}, ARCHITECTURE.md says "
                   f"{sorted(allowed)} (S-114)")


def offences(root):
    return [*repeated_helpers(root), *link_lists(root)]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {LIMITER: "n & (n - 1) log\n", NAMES: '    "replayed",\n    "gone",\n', "src/a/a.cpp": "int a;\n",
                           "ARCHITECTURE.md": "| `base` | nothing but base |\n| `a` | `base` |\n",
                           "CMakeLists.txt": "monograph_layer(a base)\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        assert offences(root) == [], offences(root)
        (root / "src/a/a.cpp").write_text('if ((n & (n - 1)) == 0) log("x");\nput("gone");\n')
        (root / "CMakeLists.txt").write_text("monograph_layer(base)\nmonograph_layer(a)\n")
        (root / "ARCHITECTURE.md").write_text("| `base` | nothing but base |\n| `b` | x |\n| `a` | `b` |\n")
        found = offences(root)
        assert len(found) == 3 and all(any(rule in line for line in found) for rule in ("S-89", "S-127", "S-114")), found


def main():
    self_test()
    found = offences(ROOT)
    print("\n".join(found))
    sys.exit(f"{len(found)} offences" if found else 0)


if __name__ == "__main__":
    main()
