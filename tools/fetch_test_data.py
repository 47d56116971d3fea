#!/usr/bin/env python3
"""Fetches real vocabularies and chat templates for the tests into .cache/test-data (vocabs/ and templates/).

They lie inside the source distribution of llama-cpp-python on PyPI. pip's own index, proxy and certificate settings
hold. Version and sha256 are pinned; data that is there and right needs no network at all. A failure is one line that
names file, hash and where to put it.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

NAME = "llama_cpp_python-0.3.36.tar.gz"
PACKAGE = "llama-cpp-python==0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
SDIST = CACHE / NAME
TARGET = CACHE / "test-data"
WANTED = re.compile(r"[^/]+/vendor/llama\.cpp/models/(?:(ggml-vocab-[^/]+)|templates/([^/]+\.jinja))")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def is_complete():
    try:
        manifest = json.loads((TARGET / "manifest.json").read_text())
        return manifest["sdist"] == SHA256 and all(
            sha256_of(TARGET / name) == digest for name, digest in manifest["files"].items())
    except (OSError, ValueError, KeyError):
        return False


def download_with_pip_parts(target):
    """Asks pip for the link and the session: `pip download` of a source distribution would run its build backend."""
    from pip._internal.commands import create_command
    command = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--no-binary", PACKAGE.split("==")[0], "--retries", "1", PACKAGE])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options=options, session=session)
        links = [c.link for c in finder.find_all_candidates(PACKAGE.split("==")[0]) if c.link.filename == NAME]
        if not links:
            return f"the index has no {NAME}, or cannot be reached"
        response = session.get(links[0].url_without_fragment, headers={"Accept-Encoding": "identity"}, stream=True)
        response.raise_for_status()
        with open(target, "wb") as sink:
            for chunk in response.iter_content(1 << 20):
                sink.write(chunk)
    return ""


def download_with_pip(target):
    """The public way: slower, as it also fetches what the package is built with."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE.split("==")[0],
               "--dest", str(target.parent), PACKAGE]
    result = subprocess.run(command, capture_output=True, text=True)
    found = target.parent / NAME
    if found.is_file():
        os.replace(found, target)
        return ""
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"pip ended with {result.returncode}"


def download(target):
    try:
        return download_with_pip_parts(target)
    except (ImportError, AttributeError, TypeError):  # another pip: its inner names are not a promise
        return download_with_pip(target)
    except Exception as error:  # whatever pip's network code throws is a reason to report
        return f"{type(error).__name__}: {error}".splitlines()[0]


def fetch_sdist(folder):
    """(path, reason): the checked source distribution, put there by hand or downloaded."""
    if SDIST.is_file():
        if sha256_of(SDIST) == SHA256:
            return SDIST, ""
        return None, f"{SDIST} has another sha256"
    print(f"fetching {NAME} (77 MB) for the tests", file=sys.stderr)
    part = folder / "sdist.part"
    reason = download(part)
    if not reason and sha256_of(part) != SHA256:
        reason = "what came has another sha256"
    return (None, reason) if reason else (part, "")


def unpack(sdist, folder):
    files = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            match = WANTED.fullmatch(member.name)
            if not match or not member.isfile():
                continue
            name = f"vocabs/{match.group(1)}" if match.group(1) else f"templates/{match.group(2)}"
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            with archive.extractfile(member) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
            files[name] = sha256_of(path)
    (folder / "manifest.json").write_text(json.dumps({"sdist": SHA256, "files": files}, indent=1) + "\n")


def main():
    if is_complete():
        return 0
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        folder = pathlib.Path(folder)
        sdist, reason = fetch_sdist(folder)
        if sdist is None:
            print(f"cannot fetch {NAME}: {reason}; put the file with sha256 {SHA256} at {SDIST}", file=sys.stderr)
            return 1
        unpacked = folder / "unpacked"
        unpacked.mkdir()
        unpack(sdist, unpacked)
        if TARGET.exists():
            shutil.rmtree(TARGET)
        os.replace(unpacked, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
