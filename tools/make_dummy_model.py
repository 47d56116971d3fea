#!/usr/bin/env python3
"""Writes a model of real shapes and random weights as safetensors, to measure loading and serving without a download.

usage: make_dummy_model.py CONFIG_FOLDER OUTPUT_FOLDER [--seed N] [--shard-gb X]

CONFIG_FOLDER holds a config.json of a dense Llama, Qwen2 or Qwen3 model (bench/configs has public ones). Matrices are
normal with deviation 0.02, norms are about 1, all bfloat16; equal seeds give equal files. Needs numpy.
"""
import argparse
import json
import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np

DEVIATION = 0.02
PIECE = 1 << 22  # values drawn at once; each piece has a generator of its own, so that threads share the work


def tensors(config):
    """Name and shape of every tensor, in file order."""
    e, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    d = config.get("head_dim") or e // config["num_attention_heads"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    bias = config["model_type"] == "qwen2" or config.get("attention_bias", False)
    yield "model.embed_tokens.weight", (v, e)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (e,)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{at}self_attn.{name}_proj.weight", (rows, e)
            if bias:
                yield f"{at}self_attn.{name}_proj.bias", (rows,)
        if config["model_type"] == "qwen3":
            yield at + "self_attn.q_norm.weight", (d,)
            yield at + "self_attn.k_norm.weight", (d,)
        yield at + "self_attn.o_proj.weight", (e, q)
        yield at + "post_attention_layernorm.weight", (e,)
        yield at + "mlp.gate_proj.weight", (f, e)
        yield at + "mlp.up_proj.weight", (f, e)
        yield at + "mlp.down_proj.weight", (e, f)
    yield "model.norm.weight", (e,)
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", (v, e)


def values(seed, index, n, mean):
    """n bfloat16 values as uint16, rounded to the nearest, ties to even."""

    def piece(number):
        count = min(PIECE, n - number * PIECE)
        random = np.random.Generator(np.random.Philox([seed, index, number, 0]))
        x = random.standard_normal(count, dtype=np.float32) * np.float32(DEVIATION) + np.float32(mean)
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)

    with ThreadPoolExecutor() as pool:  # numpy releases the lock while it draws
        yield from pool.map(piece, range((n + PIECE - 1) // PIECE))


def write_shard(path, shard, seed):
    """`shard`: (index, name, shape) of its tensors."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for _, name, shape in shard:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for index, name, shape in shard:
            for part in values(seed, index, int(np.prod(shape)), 1.0 if name.endswith("norm.weight") else 0.0):
                file.write(part.tobytes())


def shards_of(all_tensors, most_bytes):
    shards, size = [[]], 0
    for tensor in all_tensors:
        bytes_ = 2 * int(np.prod(tensor[2]))
        if shards[-1] and size + bytes_ > most_bytes:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += bytes_
    return shards


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config_folder", type=pathlib.Path)
    parser.add_argument("output_folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard-gb", type=float, default=4.0)
    args = parser.parse_args()
    config = json.loads((args.config_folder / "config.json").read_text())
    args.output_folder.mkdir(parents=True, exist_ok=True)
    for file in args.config_folder.glob("*.json"):
        shutil.copy(file, args.output_folder)
    numbered = [(i, name, shape) for i, (name, shape) in enumerate(tensors(config))]
    shards = shards_of(numbered, args.shard_gb * 1e9)
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    if len(names) == 1:
        names = ["model.safetensors"]
    for name, shard in zip(names, shards):
        write_shard(args.output_folder / name, shard, args.seed)
    if len(names) > 1:
        index = {"metadata": {"total_size": sum(2 * int(np.prod(s)) for _, _, s in numbered)},
                 "weight_map": {t[1]: name for name, shard in zip(names, shards) for t in shard}}
        (args.output_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    print(f"{args.output_folder}: {len(numbered)} tensors, {len(names)} files")


if __name__ == "__main__":
    main()
