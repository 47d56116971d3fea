#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/NAME.json: what two references make of the strings of tools/tokenizer_strings.py.

The references are llama.cpp's tokenizer (llama-cpp-python 0.3.36) on the GGUF vocabulary and Hugging Face tokenizers
(0.23.3) on the same vocabulary as tools/tokenizer_json.py writes it. Strings with an even index are encoded with special
tokens parsed, the others as plain text. A checksum is a CRC-32 over the ids (32-bit little-endian), the number 2^32-1
and the decoded text (special tokens shown, ill-formed bytes replaced); eight strings or lists share one checksum of
their checksums. Strings and lists on which the references differ are listed with both checksums and the reason.

Needs tools/fetch_model.py and tools/fetch_test_data.py to have run.
"""
import ctypes
import json
import sys
import unicodedata

import llama_cpp
import tokenizers

import tokenizer_json
import tokenizer_strings
from tokenizer_checksums import GROUP, by_reason, checksum, packed, write


class LlamaCpp:
    def __init__(self, name):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        path = str(tokenizer_json.vocabulary_path(name)).encode()
        self.model = llama_cpp.llama_model_load_from_file(path, params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.strips_space = name == "llama-spm"
        self.size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.pieces = {}

    def encode(self, text, parse_special):
        data = text.encode()
        ids = (ctypes.c_int32 * (2 * len(data) + 16))()
        n = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), False, parse_special)
        assert n >= 0
        return list(ids[:n])

    def piece(self, token):
        if token not in self.pieces:
            buffer = ctypes.create_string_buffer(1024)
            n = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, True)
            assert n >= 0
            self.pieces[token] = buffer.raw[:n]
        return self.pieces[token]

    def decode(self, ids):
        data = b"".join(map(self.piece, ids))
        if self.strips_space:
            data = data.removeprefix(b" ")
        return data.decode(errors="replace")


class HuggingFace:
    def __init__(self, name):
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json.tokenizer_json(name)))

    def encode(self, text, parse_special):
        self.tokenizer.encode_special_tokens = not parse_special
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)


def why_strings_differ(text):
    if unicodedata.normalize("NFC", text) != text:
        return "nfc: only the Hugging Face tokenizer normalises"
    if "</s>" in text:
        return "</s>: a normal entry that llama.cpp makes a control token"
    return "a byte without a token: its neighbours merge across it or not"


def compare(llama, hf, cases, reason):
    """(checksums, departures) where cases give (ids, text) for a reference, and `reason` says why case i differs."""
    sums, departures = [], []
    for i, case in enumerate(cases):
        one, other = checksum(*case(hf)), checksum(*case(llama))
        sums.append(one)
        if one != other:
            departures.append([i, one, other, reason(i)])
    return sums, departures


def golden(name):
    llama, hf = LlamaCpp(name), HuggingFace(name)

    def encode_case(i, text):
        def run(reference):
            ids = reference.encode(text, i % 2 == 0)
            return ids, reference.decode(ids)
        return run

    def decode_case(numbers):
        ids = [number % llama.size for number in numbers]
        return lambda reference: (ids, reference.decode(ids))

    texts = list(tokenizer_strings.strings())
    strings = compare(llama, hf, [encode_case(i, text) for i, text in enumerate(texts)],
                      lambda i: why_strings_differ(texts[i]))
    lists = compare(llama, hf, [decode_case(numbers) for numbers in tokenizer_strings.lists()],
                    lambda i: "broken bytes: replaced one by one, or a maximal subpart at a time")
    return {
        "vocabulary": name, "seed": tokenizer_strings.SEED, "group": GROUP,
        "llama_cpp_python": llama_cpp.__version__, "tokenizers": tokenizers.__version__,
        "strings": packed(strings[0]), "string_departures": by_reason(strings[1]),
        "lists": packed(lists[0]), "list_departures": by_reason(lists[1]),
    }


def main():
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    for name in sys.argv[1:] or tokenizer_json.NAMES:
        content = golden(name)
        write(name, content)
        for kind in ("string_departures", "list_departures"):
            print(name, kind, {reason: len(rows) for reason, rows in content[kind].items()})


if __name__ == "__main__":
    main()
