#!/usr/bin/env python3
"""Writes GGUF vocabularies as tokenizer.json, the way their families are published.

tools/make_tokenizer_golden.py gives these files to the Hugging Face tokenizers; the tests give them to Monograph's
loader. Standard library only. Usage: tools/tokenizer_json.py FOLDER (writes FOLDER/NAME.json for each vocabulary, and
FOLDER/strings.bin, the strings of tools/tokenizer_strings.py).
"""
import base64
import json
import os
import pathlib
import sys

import tokenizer_strings
from gguf_vocabulary import read_vocabulary

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("smollm2", "llama-bpe", "qwen2", "gpt-2", "starcoder", "llama-spm")
# Unigram: XLM-R's vocabulary, and its first entries with bytes in the shape of Llama models (no GGUF file has that).
XLM_R, UNIGRAM_BYTES = "nomic-bert-moe", "unigram-bytes"
UNIGRAM_NAMES = (XLM_R, UNIGRAM_BYTES)
N_UNIGRAM_BYTES = 20_000
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
MARK = "\u2581"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")


def vocabulary_path(name):
    if name == "smollm2":
        return ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return ROOT / ".cache" / "test-data" / "vocabs" / f"ggml-vocab-{name}.gguf"


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def split(digits):
    pattern = {"Regex": WORDS.replace("DIGITS", digits)}
    parts = [{"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}, byte_level(False)]
    return {"type": "Sequence", "pretokenizers": parts}


def digits_then_gpt2():
    return {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(True)]}


PRE_TOKENIZERS = {
    "gpt-2": byte_level(True),
    "smollm2": digits_then_gpt2(),
    "starcoder": digits_then_gpt2(),
    "llama-bpe": split("{1,3}"),
    "qwen2": split(""),
    "llama-spm": None,
}


def added_tokens(tokens, types):
    return [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": kind != USER_DEFINED}
            for i, (token, kind) in enumerate(zip(tokens, types)) if kind in (UNKNOWN, CONTROL, USER_DEFINED)]


def merges_from_scores(vocab, scores):
    """SentencePiece stores no merges: every way to cut a piece in two known ones is one, the best pieces first."""
    merges = []
    for piece, index in sorted(vocab.items(), key=lambda item: (-scores[item[1]], item[1])):
        cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += sorted(cuts, key=lambda cut: (vocab[cut[0]], vocab[cut[1]]))
    return merges


def spm_parts(tokens, scores):
    vocab = {token: i for i, token in enumerate(tokens)}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK},
                                                      {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
                                                {"type": "ByteFallback"}, {"type": "Fuse"},
                                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return merges_from_scores(vocab, scores), normalizer, decoder


def template(tokens, bos):
    piece = {"SpecialToken": {"id": tokens[bos], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [piece, text],
            "pair": [piece, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}}}


def untypable(i):
    """What no text holds, in place of a control entry: the Hugging Face unigram model lets text become one."""
    return f"\ue000\ue001{i}"


def xlm_r_parts(values):
    space = {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}]}
    charsmap = base64.b64encode(bytes(byte % 256 for byte in values["precompiled_charsmap"])).decode()
    return {"type": "Precompiled", "precompiled_charsmap": charsmap}, space, space["pretokenizers"][1]


def unigram_bytes_parts():
    normalizer = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Prepend", "prepend": MARK},
                                                      {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
    decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": MARK}, "content": " "},
                                                {"type": "ByteFallback"}, {"type": "Fuse"},
                                                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return normalizer, None, decoder


def unigram_json(name, control_is_typable=True):
    values = read_vocabulary(vocabulary_path(XLM_R))
    types = values["token_type"]
    # Nine digits say which float it is, and any parser reads them right; of ties the last bit decides.
    vocab = [[token.decode(), float(f"{score:.9g}")] for token, score, kind in zip(values["tokens"], values["scores"], types) if kind != UNUSED]
    if name == UNIGRAM_BYTES:  # a score so low that no text becomes a byte entry by its name
        vocab = vocab[:N_UNIGRAM_BYTES] + [[f"<0x{byte:02X}>", -10_000.0] for byte in range(256)]
        normalizer, pre_tokenizer, decoder = unigram_bytes_parts()
    else:
        normalizer, pre_tokenizer, decoder = xlm_r_parts(values)
    added = added_tokens([entry for entry, _ in vocab], types[:len(vocab)])
    if not control_is_typable:
        for token in added:
            vocab[token["id"]][0] = untypable(token["id"])
        added = []
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": decoder,
        "model": {"type": "Unigram", "unk_id": values["unknown_token_id"], "vocab": vocab,
                  "byte_fallback": name == UNIGRAM_BYTES},
    }


def tokenizer_json(name):
    if name in UNIGRAM_NAMES:
        return unigram_json(name)
    values = read_vocabulary(vocabulary_path(name))
    tokens = [token.decode() for token in values["tokens"]]
    spm = name == "llama-spm"
    if spm:
        merges, normalizer, decoder = spm_parts(tokens, values["scores"])
    else:
        merges = [merge.decode().split(" ") for merge in values["merges"]]
        normalizer = {"type": "NFC"} if name == "qwen2" else None
        decoder = byte_level(True)
    adds_bos = spm or name == "llama-bpe"
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": added_tokens(tokens, values["token_type"]), "normalizer": normalizer, "pre_tokenizer": PRE_TOKENIZERS[name],
        "post_processor": template(tokens, values["bos_token_id"]) if adds_bos else None, "decoder": decoder,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>" if spm else None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": spm, "byte_fallback": spm,
                  "ignore_merges": name == "llama-bpe",
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES + UNIGRAM_NAMES:
        path = vocabulary_path(XLM_R if name == UNIGRAM_BYTES else name)
        if not path.is_file():
            script = "fetch_model.py" if name == "smollm2" else "fetch_test_data.py"
            sys.exit(f"{path} is missing: run tools/{script}")
        part = folder / f"{name}.json.part"
        part.write_text(json.dumps(tokenizer_json(name), ensure_ascii=False))
        os.replace(part, folder / f"{name}.json")
    tokenizer_strings.write(folder / "strings.bin")


if __name__ == "__main__":
    main()
