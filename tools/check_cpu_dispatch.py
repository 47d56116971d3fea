#!/usr/bin/env python3
"""OL05: no instruction beyond the x86-64 baseline outside run-time dispatch. Disassembles programs and fails on each function
that uses AVX, AVX-512 or their masks without standing in the namespace of a dispatched target (hwy's N_AVX2, N_AVX3, ...).

  check_cpu_dispatch.py PROGRAM..."""
import platform
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
# The namespace of a dispatched target, with its length, as it stands in mangled names.
DISPATCHED = re.compile("|".join(f"{len(name)}{name}" for name in ("N_AVX2", "N_AVX3", "N_AVX3_DL", "N_AVX3_ZEN4", "N_AVX3_SPR")))
BEYOND = re.compile(r"%[yz]mm\d|%k[0-7]\b|^v[a-z]")
# Part of every processor's start-up code; saves registers only after it has asked whether they exist.
KNOWN = {"_dl_runtime_resolve_xsave", "_dl_runtime_resolve_xsavec"}


def offences(lines):
    """(function, instruction), one for each function that breaks the rule; and the number of dispatched functions."""
    found, name, n_dispatched = [], "", 0
    for line in lines:
        if start := FUNCTION.match(line):
            name, dispatched, seen = start[1], bool(DISPATCHED.search(start[1])), False
            n_dispatched += dispatched
            continue
        parts = line.split("\t")
        if len(parts) < 2 or not name or dispatched or seen or name in KNOWN:
            continue
        if BEYOND.search(parts[-1].strip()):
            seen = True
            found.append((name, parts[-1].strip()))
    return found, n_dispatched


def disassembly(path):
    run = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def self_test():
    good = ["0000 <_ZN9monograph3cpu6N_AVX23mulEv>:", "   0:\tvmulps %ymm0,%ymm1,%ymm2", "0010 <plain>:", "  10:\tmulps %xmm0,%xmm1"]
    bad = ["0000 <plain>:", "   0:\tvmulps %ymm0,%ymm1,%ymm2", "0010 <_ZN6N_SSE43mulEv>:", "  10:\tkmovw %k1,%eax"]
    assert offences(good) == ([], 1), offences(good)
    assert [name for name, _ in offences(bad)[0]] == ["plain", "_ZN6N_SSE43mulEv"], offences(bad)


def main():
    """OL05: see above."""
    self_test()
    if platform.machine() != "x86_64":
        sys.exit("check_cpu_dispatch: for x86-64 programs only")
    failed = False
    for path in sys.argv[1:]:
        found, n_dispatched = offences(disassembly(path))
        for name, instruction in found:
            print(f"{path}: {name}: {instruction}")
        failed |= bool(found)
        if n_dispatched == 0:
            failed = True
            print(f"{path}: no dispatched function at all: are its symbols stripped?")
        print(f"{path}: {n_dispatched} functions behind run-time dispatch, {len(found)} offences")
    sys.exit(failed)


if __name__ == "__main__":
    main()
