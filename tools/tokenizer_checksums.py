"""How tests/golden/tokenizer/NAME.json holds what references gave; tools/make_tokenizer_golden.py says what."""
import base64
import json
import pathlib
import struct
import zlib

TARGET = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tokenizer"
GROUP = 8


def checksum(ids, text):
    return zlib.crc32(struct.pack(f"<{len(ids) + 1}I", *ids, 2**32 - 1) + text.encode())


def packed(checksums):
    """Base64 of one CRC-32 for each group of checksums."""
    groups = (checksums[i:i + GROUP] for i in range(0, len(checksums), GROUP))
    data = b"".join(struct.pack("<I", zlib.crc32(struct.pack(f"<{len(group)}I", *group))) for group in groups)
    return base64.b64encode(data).decode()


def by_reason(departures):
    """{reason: [[index, Hugging Face's checksum, llama.cpp's], ...]}"""
    out = {}
    for row in departures:
        out.setdefault(row[3], []).append(row[:3])
    return out


def write(name, content):
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")).replace(',"', ',\n"') + "\n")
