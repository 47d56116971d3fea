#!/usr/bin/env python3
"""Writes src/text/unicode_tables.inc: where the classes that pre-tokenizers ask about change.

Unicode 16.0 (unicodedata2==16.0.0), the version whose \\p{L}, \\p{M}, \\p{N} the Hugging Face tokenizers 0.23 use, code
point for code point. Each row is {first code point, class}; a class holds until the next row.
"""
import pathlib
import sys

import unicodedata2

VERSION = "16.0.0"
TARGET = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "unicode_tables.inc"
# The property White_Space, which no category gives.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
LETTER, MARK, NUMBER, SPACE, OTHER = "LMNSO"


def class_of(code):
    if code in SPACES:
        return SPACE
    first = unicodedata2.category(chr(code))[0]
    return first if first in (LETTER, MARK, NUMBER) else OTHER


def rows():
    previous = None
    for code in range(0x110000):
        current = class_of(code)
        if current != previous:
            yield f"{{0x{code:x},k{current}}},"
        previous = current


def main():
    if unicodedata2.unidata_version != VERSION:
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}, expected {VERSION}")
    lines = [f"// Made by tools/make_unicode_tables.py from Unicode {VERSION}; do not edit.", "// clang-format off"]
    line = ""
    for row in rows():
        if len(line) + len(row) > 120:
            lines.append(line)
            line = ""
        line += row
    TARGET.write_text("\n".join(lines + [line, "// clang-format on"]) + "\n")


if __name__ == "__main__":
    main()
