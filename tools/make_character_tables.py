#!/usr/bin/env python3
"""Writes src/text/jinja/character_tables.inc: what Python's str methods know of each character.

Taken from the running Python, the one that renders the goldens (tools/make_template_golden.py), so that templates see
the same Unicode version. Classes are {first code point, bits}, each holding until the next row; case mappings are
{first, last, step, distance}; mappings to several characters are listed one by one.
"""
import pathlib
import unicodedata

TARGET = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "jinja" / "character_tables.inc"
CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
PROPERTIES = ("isspace", "isprintable", "isalpha", "isnumeric", "isdigit", "isdecimal", "isupper", "islower")


def is_final_sigma(before):
    return (before + "Σ").lower().endswith("ς")


def bits_of(code):
    c = chr(code)
    bits = sum(1 << i for i, name in enumerate(PROPERTIES) if getattr(c, name)())
    bits |= (c.istitle() and not c.isupper()) << 8
    cased = is_final_sigma(c)
    bits |= cased << 9
    bits |= (not cased and is_final_sigma("A" + c)) << 10
    return bits


def classes():
    previous = None
    for code in CODES:
        bits = bits_of(code)
        if bits != previous:
            yield f"{{0x{code:x},{bits}}},"
        previous = bits


def mapping(function):
    """Runs of single-character mappings of one distance, one or two apart."""
    runs = []
    for code in CODES:
        target = function(chr(code))
        if len(target) != 1 or ord(target) == code:
            continue
        distance = ord(target) - code
        if runs and runs[-1][3] == distance:
            first, last, step, _ = runs[-1]
            gap = code - last
            if gap == step or (first == last and gap in (1, 2)):
                runs[-1] = (first, code, gap, distance)
                continue
        runs.append((code, code, 1, distance))
    return [f"{{0x{a:x},0x{b:x},{step},{distance}}}," for a, b, step, distance in runs]


def several(function):
    rows = [(code, function(chr(code))) for code in CODES]
    return ["{0x%x,{%s}}," % (code, ",".join(f"0x{ord(c):x}" for c in text)) for code, text in rows if len(text) > 1]


def table(name, kind, rows):
    lines, line = [f"constexpr {kind} {name}[] = {{"], ""
    for row in rows:
        if len(line) + len(row) > 118:
            lines.append(line)
            line = ""
        line += row
    return lines + [line, "};"]


def main():
    lines = [f"// Made by tools/make_character_tables.py from Unicode {unicodedata.unidata_version}; do not edit.",
             "// clang-format off"]
    lines += table("kClasses", "ClassRow", classes())
    for name, function in (("Upper", str.upper), ("Lower", str.lower), ("Title", str.title)):
        lines += table(f"k{name}", "CaseRow", mapping(function))
        lines += table(f"k{name}Several", "SeveralRow", several(function))
    TARGET.write_text("\n".join(lines) + "\n// clang-format on\n")


if __name__ == "__main__":
    main()
