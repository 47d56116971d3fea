#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/NAME.json for the unigram vocabularies of tools/tokenizer_json.py, by the Hugging Face
tokenizers (0.23.3) alone; what a file holds, tools/make_tokenizer_golden.py says.

Hugging Face's unigram model lets plain text like "</s>" become a control token; SentencePiece and Monograph do not.
So strings with an odd index, which are plain text, are also encoded with control entries that no text can be; where that
differs, both checksums are listed (Hugging Face's as it is, and that one, which the tests want).

Bytes that make no character are replaced by maximal subparts, as Python does; Hugging Face does it byte by byte.

Needs tools/fetch_test_data.py to have run.
"""
import json
import re

import tokenizers

import tokenizer_json
import tokenizer_strings
from tokenizer_checksums import GROUP, by_reason, checksum, packed, write

CONTROL = "control text: Hugging Face's unigram model makes a control token of it"
BYTE = re.compile("<0x[0-9A-F]{2}>")
BROKEN = "broken bytes: replaced one by one, or a maximal subpart at a time"


def reference(name, **options):
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json.unigram_json(name, **options)))


def joined(entries):
    parts = (bytes.fromhex(e[3:5]) if BYTE.fullmatch(e) else e.replace(tokenizer_json.MARK, " ").encode() for e in entries)
    return b"".join(parts).removeprefix(b" ").decode(errors="replace")


def golden(name):
    plain, typable = reference(name, control_is_typable=False), reference(name)
    size = typable.get_vocab_size()
    sums, departures = [], []
    for i, text in enumerate(tokenizer_strings.strings()):
        typable.encode_special_tokens = i % 2 == 1
        ids = typable.encode(text, add_special_tokens=False).ids
        sums.append(checksum(ids, typable.decode(ids, skip_special_tokens=False)))
        if i % 2 == 1:
            ids = plain.encode(text, add_special_tokens=False).ids
            other = checksum(ids, typable.decode(ids, skip_special_tokens=False))
            if other != sums[-1]:
                departures.append([i, sums[-1], other, CONTROL])
    list_sums, list_departures = [], []
    for i, numbers in enumerate(tokenizer_strings.lists()):
        ids = [number % size for number in numbers]
        list_sums.append(checksum(ids, typable.decode(ids, skip_special_tokens=False)))
        other = checksum(ids, joined([typable.id_to_token(token) for token in ids]))
        if name == tokenizer_json.UNIGRAM_BYTES and other != list_sums[-1]:
            list_departures.append([i, list_sums[-1], other, BROKEN])
    return {
        "vocabulary": name, "seed": tokenizer_strings.SEED, "group": GROUP, "tokenizers": tokenizers.__version__,
        "vocab_size": size,
        "strings": packed(sums), "string_departures": by_reason(departures),
        "lists": packed(list_sums), "list_departures": by_reason(list_departures),
    }


def main():
    for name in tokenizer_json.UNIGRAM_NAMES:
        result = golden(name)
        write(name, result)
        print(name, {reason: len(rows) for kind in ("string_departures", "list_departures")
                     for reason, rows in result[kind].items()})


if __name__ == "__main__":
    main()
