#!/usr/bin/env python3
"""Makes tests/golden/dequantise.json: digests of what gguf-py makes of 100,000 random blocks of each quantised type.

Block bytes are the little-endian words mix(0), mix(1), ... of splitmix64; then bit 14 of every half-precision field is
cleared, so that scales are finite and below 2. The digest is the sum of mix(bits ^ mix(i)) over all floats i, modulo
2^64: it depends on every bit and every place. tests/base/dequantise_test.cpp makes the same blocks."""
import json
import pathlib
import sys

import gguf
import numpy as np

GGML = gguf.GGMLQuantizationType
N_BLOCKS, BATCH = 100_000, 10_000
HALF_FIELDS = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
               "Q6_K": [208]}


def mix(x):
    x = (x.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def blocks(name):
    size = gguf.GGML_QUANT_SIZES[GGML[name]][1]
    words = mix(np.arange((N_BLOCKS * size + 7) // 8, dtype=np.uint64))
    data = words.view(np.uint8)[:N_BLOCKS * size].reshape(N_BLOCKS, size).copy()
    for at in HALF_FIELDS[name]:
        data[:, at + 1] &= 0xBF
    return data


def digest(name):
    total, at = 0, 0
    data = blocks(name)
    for first in range(0, N_BLOCKS, BATCH):
        bits = gguf.quants.dequantize(data[first:first + BATCH], GGML[name]).astype(np.float32).view(np.uint32).ravel()
        index = np.arange(at, at + len(bits), dtype=np.uint64)
        total += int(mix(bits.astype(np.uint64) ^ mix(index)).sum(dtype=np.uint64))
        at += len(bits)
    return f"{total % 2**64:016x}"


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/dequantise.json")
    golden = {"made_by": {"gguf": "0.19.0", "numpy": np.__version__}, "n_blocks": N_BLOCKS,
              "digests": {name: digest(name) for name in HALF_FIELDS}}
    out.write_text(json.dumps(golden, indent=2) + "\n")
