#!/usr/bin/env python3
"""Writes tests/golden/templates/: what jinja2, set up as transformers does, makes of chat templates.

    published.json    each published template (tools/fetch_test_data.py) with each conversation: a hash of the text,
                      the text of raise_exception, or the kind of failure; whole texts of a few
    conversations.json  those conversations (template_conversations.py)
    snippets.json     small templates with their output (template_snippets.py)
    expressions.txt   10,000 random expressions, each with a hash of what it gives (template_expressions.py)

Names of parts (published, small, random) as arguments make only those. Run in an environment with jinja2 3.1.6 and
transformers 5.24; the versions are recorded in each file.
"""
import json
import pathlib
import sys

import template_conversations as conversations
import template_expressions as expressions
import template_reference as reference
import template_snippets as snippets

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "templates"
PUBLISHED = ROOT / ".cache" / "test-data" / "templates"
WHOLE = {"Qwen-Qwen2.5-7B-Instruct.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja", "google-gemma-2-2b-it.jinja"}
SEED, N_EXPRESSIONS = 20251201, 10_000


def hash_of(text, bits=64):
    """FNV-1a of the UTF-8 bytes, folded to `bits`, in hex."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    if bits == 32:
        value = value >> 32 ^ value & 0xFFFFFFFF
    return f"{value:0{bits // 4}x}"


def write(name, data, lists):
    """JSON with one line per entry of the values named in `lists`, so that differences stay readable."""
    def dumps(value):
        return json.dumps(value, ensure_ascii=False)

    def block(value):
        is_dict = isinstance(value, dict)
        entries = [f"{dumps(k)}: {dumps(v)}" for k, v in value.items()] if is_dict else [dumps(v) for v in value]
        return "{}\n  {}\n {}".format("{" if is_dict else "[", ",\n  ".join(entries), "}" if is_dict else "]")

    parts = [f" {dumps(key)}: {block(value) if key in lists else dumps(value)}" for key, value in data.items()]
    (TARGET / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def published():
    templates = {}
    for path in sorted(PUBLISHED.glob("*.jinja")):
        source = path.read_text()
        results = {}
        for name in conversations.CONVERSATIONS:
            result = reference.render(source, conversations.variables(name))
            if "out" in result and path.name not in WHOLE:
                result = {"hash": hash_of(result["out"]), "bytes": len(result["out"].encode())}
            results[name] = result
        templates[path.name] = {"source": hash_of(source), "results": results}
    if not templates:
        sys.exit(f"no templates in {PUBLISHED}; run tools/fetch_test_data.py first")
    write("published.json", {"versions": reference.VERSIONS, "now": reference.NOW.isoformat(), "templates": templates},
          {"templates"})
    write("conversations.json", {name: conversations.variables(name) for name in conversations.CONVERSATIONS}, {})


def small():
    cases = [{"template": source, **reference.render(source, snippets.VARIABLES)} for source in snippets.snippets()]
    cases += [{"template": source, "error": "refused"} for source in snippets.refused()]
    for case in cases:
        if " at 0x" in case.get("out", ""):
            sys.exit(f"{case['template']}: prints an address")
    write("snippets.json", {"versions": reference.VERSIONS, "now": reference.NOW.isoformat(),
                            "variables": snippets.VARIABLES, "cases": cases}, {"cases"})


def verdict(expression):
    result = reference.render("{{ " + expression + " }}", snippets.VARIABLES)
    if " at 0x" in result.get("out", "") or result != reference.render_unfolded(expression, snippets.VARIABLES):
        return None  # an address, or what only Jinja's folding of constants gives
    return hash_of(result["out"], 32) if "out" in result else result["error"]


def random_expressions():
    lines = [f"# {json.dumps(reference.VERSIONS)} seed {SEED}: hash of the output or kind of failure, then the expression"]
    for expression in expressions.expressions(N_EXPRESSIONS * 11 // 10, SEED):
        found = verdict(expression)
        if found and len(lines) <= N_EXPRESSIONS:
            lines.append(f"{found} {expression}")
    (TARGET / "expressions.txt").write_text("\n".join(lines) + "\n")


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    parts = {"published": published, "small": small, "random": random_expressions}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
