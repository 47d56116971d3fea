#!/usr/bin/env python3
"""docs/bug_log.md against the tests: each row has tests, which exist and carry its id, or says why not; and each id that a test
carries is listed. Prints line and rule for each offence."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTIONS = "CG PG KV TK ST SA AP MF CT LK MX SE OL".split()
# Also at the ends of test names, as in AnyNameSA06 and MF12ShortenedWhileLoading.
ID = re.compile(rf"(?:{'|'.join(SECTIONS)})\d\d(?!\d)")
ROW = re.compile(r"^\| ([A-Z]{2}\d\d) \| (.*) \|$")
TEST = re.compile(r"`([\w/.]+) ([\w.]+)`")
COMMENT_LINES = 4  # above a test


def tests_of(path):
    """Name -> text, from the comment above it to the next test."""
    text = path.read_text()
    starts = list(re.finditer(r"^(?:TEST(?:_F|_P)?\((\w+),\s*(\w+)\s*\)|def (\w+)\()", text, re.M))
    found = {}
    for here, following in zip(starts, [*starts[1:], None]):
        above = "\n".join(text[:here.start()].split("\n")[-COMMENT_LINES - 1:])
        name = here[3] or f"{here[1]}.{here[2]}"
        found[name] = above[above.rfind("}\n") + 1:] + text[here.start():following.start() if following else len(text)]
    return found


def offences(document, root):
    found, listed, cache = [], {}, {}
    for number, line in enumerate(document.splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        identifier, cell = row[1], row[2]
        if identifier in listed:
            found.append(f"{number}: {identifier} stands twice")
        named = TEST.findall(cell)
        listed[identifier] = bool(named)
        if not named and not cell.startswith("open: "):
            found.append(f"{number}: {identifier}: neither a test as `FILE NAME` nor \"open: why\"")
        for file, name in named:
            path = root / file
            if file not in cache:
                cache[file] = tests_of(path) if path.is_file() else None
            if cache[file] is None:
                found.append(f"{number}: {identifier}: no file {file}")
            elif name not in cache[file]:
                found.append(f"{number}: {identifier}: {file} has no test {name}")
            elif identifier not in cache[file][name]:
                found.append(f"{number}: {identifier}: {file} {name} does not carry the id")
    for path in sorted([*root.glob("tests/**/*_test.cpp"), *root.glob("tests/**/*_test.py")]):
        file = path.relative_to(root).as_posix()
        for name, text in tests_of(path).items():
            head = text.split("{\n", 1)[0] if path.suffix == ".cpp" else text.split('"""')[1] if '"""' in text else name
            for identifier in sorted(set(ID.findall(head) + ID.findall(name))):
                if not listed.get(identifier):
                    found.append(f"{file} {name} carries {identifier}, which docs/bug_log.md does not list with a test")
    return found


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tests").mkdir()
        (root / "tests/a_test.cpp").write_text("// KV01: why\nTEST(A, Works) {\n}\n\nTEST_F(B, SA06_Fine) {\n}\n")
        good = "| KV01 | `tests/a_test.cpp A.Works` |\n| SA06 | `tests/a_test.cpp B.SA06_Fine` |\n| CG01 | open: GPU |\n"
        assert offences(good, root) == [], offences(good, root)
        for bad, rule in ((good.replace("A.Works", "A.Gone"), "has no test"), (good.replace("a_test", "b_test"), "no file"),
                          (good.replace("| KV01 | `tests/a_test.cpp A.Works`", "| KV01 | "), "neither"),
                          (good.replace("A.Works", "B.SA06_Fine"), "does not carry"), (good + "| CG01 | open: x |\n", "twice"),
                          (good.replace("| SA06 | `tests/a_test.cpp B.SA06_Fine` |\n", ""), "does not list")):
            assert any(rule in line for line in offences(bad, root)), (rule, offences(bad, root))


def main():
    self_test()
    found = offences((ROOT / "docs/bug_log.md").read_text(), ROOT)
    for line in found:
        print(f"docs/bug_log.md:{line}")
    sys.exit(f"{len(found)} offences" if found else 0)


if __name__ == "__main__":
    main()
