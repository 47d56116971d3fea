#!/usr/bin/env python3
"""docs/requirements.md against the tree: every S-id, and the lane's R-ids, once and in order; each id of this milestone has evidence that exists, or says
why it is open. Prints line and rule for each offence, and how many ids are green, partly green and open.

  check_requirements.py            the check
  check_requirements.py S-38       the commands that show S-38

Evidence is `FILE TEST` (a test of that name, not disabled), `ctest NAME` (a test of CMake), `run: FILE` (a recorded run) or
`review: COMMIT`. A row that ends in "open: WHY" is not green, whatever else it names."""
import pathlib
import re
import subprocess
import sys
import tempfile

from check_bug_log import tests_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = "docs/requirements.md"
LAST = 129
RELIABILITY = ["R10", "R11", "R16"]  # the lane's rows among the reliability targets
LATER = {"M2": [26, *range(62, 73), 74, 75, 76, 77], "M3": [18, 73, 93, 94, 96, 97, 99, 100, 101, 102, *range(105, 110)]}
ROW = re.compile(r"^\| (S-\d+|R\d+) \| (M\d) \| ([^|]+) \| (.*) \|$")
ITEM = re.compile(r"`([^`]+)`")


def milestone(number):
    return next((name for name, ids in LATER.items() if number in ids), "M1")


def ctest_names(root):
    text = (root / "tests/CMakeLists.txt").read_text()
    names = set(re.findall(r"add_test\(NAME ([\w$]+)", text)) | set(re.findall(r"monograph_tests\((\w+)", text))
    for prefix, words in re.findall(r"foreach\(name ([^)]*)\)[^$]*?add_test\(NAME (\w+)_\$\{name\}", text):
        names |= {f"{words}_{word}" for word in prefix.split()}
    return names


def commit_exists(root, commit):
    known = subprocess.run(["git", "-C", root, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
    shallow = subprocess.run(["git", "-C", root, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    return known.returncode == 0 or shallow.stdout.strip() != "false"  # no history here, nothing to look into


def wrong(item, root, cache):
    """Why a piece of evidence is none; empty if it is."""
    kind, _, rest = item.partition(" ")
    if kind == "ctest":
        return "" if rest in ctest_names(root) else f"CMake has no test {rest}"
    if kind == "run:":
        return "" if (root / rest).is_file() else f"no file {rest}"
    if kind == "review:":
        return "" if commit_exists(root, rest) else f"no commit {rest}"
    if kind not in cache:
        cache[kind] = tests_of(root / kind) if (root / kind).is_file() else None
    if cache[kind] is None:
        return f"no file {kind}"
    if rest not in cache[kind]:
        return f"{kind} has no test {rest}"
    if "DISABLED_" in rest or "GTEST_SKIP" in cache[kind][rest]:
        return f"{kind} {rest} is disabled or skips itself"
    return ""


def offences(document, root):
    found, rows, cache = [], [], {}
    for number, line in enumerate(document.splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        identifier, stated, _, cell = row.groups()
        rows.append(identifier)
        expected = milestone(int(identifier[2:])) if identifier.startswith("S-") else "M1"
        if stated != expected:
            found.append(f"{number}: {identifier} is of {expected}, not {stated}")
        items = ITEM.findall(cell)
        if not items and "open: " not in cell:
            found.append(f"{number}: {identifier} has neither evidence nor \"open: WHY\"")
        found += [f"{number}: {identifier}: {why}" for item in items if (why := wrong(item, root, cache))]
    expected = [f"S-{i:02}" for i in range(1, LAST + 1)] + RELIABILITY
    if rows != expected:
        missing = [identifier for identifier in expected if identifier not in rows]
        found.append(f"rows are not S-01 to S-{LAST} and {', '.join(RELIABILITY)} once each and in order; missing: "
                     f"{', '.join(missing) or 'none'}")
    return found


def command(item):
    kind, _, rest = item.partition(" ")
    if kind == "ctest":
        return f"ctest --test-dir build/cpu -R '^{rest}$'"
    if kind == "run:":
        return f"see {rest}"
    if kind == "review:":
        return f"git show {rest}"
    if kind.endswith(".py"):
        return f"MONOGRAPH_BINARY=build/cpu/monograph python3 -B {kind} {rest}"
    folder = kind.split("/")[1]
    build = "cuda" if folder == "cuda" else "cpu"
    return f"build/{build}/tests/{folder}_test --gtest_filter='*{rest}*'"


def summary(document):
    cells = [row[4] for row in map(ROW.match, document.splitlines()) if row and row[2] == "M1"]
    partly = sum("open: " in cell and bool(ITEM.findall(cell)) for cell in cells)
    still_open = sum("open: " in cell for cell in cells) - partly
    return f"M1: {len(cells) - partly - still_open} green, {partly} partly, {still_open} open"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tests").mkdir()
        (root / "tests/a_test.cpp").write_text("TEST(A, Works) {\n}\nTEST(A, Skips) {\n  GTEST_SKIP();\n}\n")
        (root / "tests/CMakeLists.txt").write_text("add_test(NAME layers COMMAND x)\n")
        rows = [f"| S-{i:02} | {milestone(i)} | title | `tests/a_test.cpp A.Works`, `ctest layers` |" for i in range(1, LAST + 1)]
        rows += [f"| {name} | M1 | title | `ctest layers` |" for name in RELIABILITY]
        good = "\n".join(rows)
        assert offences(good, root) == [], offences(good, root)
        for bad, rule in (("\n".join(rows[1:]), "missing: S-01"), (good.replace("A.Works`", "A.Gone`", 1), "has no test"),
                          (good.replace("a_test", "b_test", 1), "no file"), (good + "\n" + rows[0], "once each"),
                          (good.replace("A.Works", "A.Skips", 1), "skips itself"), (good.replace("| M1 |", "| M2 |", 1), "is of M1"),
                          (good.replace("`tests/a_test.cpp A.Works`, `ctest layers`", "words", 1), "neither"),
                          (good.replace("ctest layers", "ctest other", 1), "CMake has no test"),
                          (good.replace("`ctest layers`", "`run: nowhere.md`", 1), "no file"), ("\n".join(rows[:-1]), "missing: R16")):
            assert any(rule in line for line in offences(bad, root)), (rule, offences(bad, root))


def main():
    document = (ROOT / DOCUMENT).read_text()
    if len(sys.argv) > 1:
        for row in map(ROW.match, document.splitlines()):
            if row and row[1] == sys.argv[1]:
                print("\n".join(command(item) for item in ITEM.findall(row[4])))
        return
    self_test()
    found = offences(document, ROOT)
    for line in found:
        print(f"{DOCUMENT}:{line}")
    print(summary(document))
    sys.exit(f"{len(found)} offences" if found else 0)


if __name__ == "__main__":
    main()
