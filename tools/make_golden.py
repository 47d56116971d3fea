#!/usr/bin/env python3
"""Makes tests/golden/logits/*.golden: what transformers answers in fp32 on the CPU, for the models the tests run.

  make_golden.py tiny  --models tests/golden/models --out tests/golden/logits     for every model found there
  make_golden.py real  --model models/SmolLM2-135M-Instruct.Q4_1.gguf --out tests/golden/logits
  make_golden.py recipe --out tests/golden/logits                                 the models of recipe_model.py
  make_golden.py check --models tests/golden/models --golden tests/golden/logits  same again, compared

Weights are those of the files: safetensors as stored, GGUF dequantised by gguf-py (q and k rows put back in order),
both as fp32. Attention is the eager one. torch runs one thread.

A .golden file, little-endian:
  8 bytes   "MGGOLD1\\n"
  uint32    length of the JSON that follows
  JSON      {"model": "llama-gqa",            file or folder under tests/golden/models without .gguf, or "real" name
             "made_by": {"script": ..., "numpy": ..., "torch": ..., "transformers": ..., "gguf": ...},
             "vocab_size": 288, "encoding": "f32" | "i16",
             "prompts": [{"tokens": [ids],
                          "rows": [positions whose logits are stored, ascending; row p is after tokens[0..p]],
                          "at": index of the first of these rows among all rows of the file,
                          "greedy": [ids that greedy decoding gives, never stopping at EOS],
                          "gaps": [best minus second-best logit at each of these steps],
                          "kind": "raw" | "chat"}, ...]}
  rows      f32: vocab_size floats each.
            i16: one float `scale`, then vocab_size int16 each; logit = scale * int16 (scale = max|row| / 32767).
tests/golden/golden.h reads them."""
import argparse
import json
import pathlib
import struct
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

import recipe_model
import tiny_models as tiny
from make_tiny_model import GGUF_NAMES

MAGIC = b"MGGOLD1\n"
VERSIONS = {"script": 1, "numpy": np.__version__, "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__, "gguf": "0.19.0"}


# ---- Reading models without help from the code under test

def undo_interleave(array, n_heads):
    rows = array.shape[0]
    return array.reshape(n_heads, rows // n_heads // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)


def hf_name(name):
    names = {v: k for k, v in GGUF_NAMES.items()}
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("blk."):
        _, layer, rest = stem.split(".", 2)
        return f"model.layers.{layer}.{names[rest]}.{kind}"
    return f"{names[stem]}.{kind}"


def read_gguf_tensors(paths):
    tensors, fields = {}, {}
    for path in paths:
        reader = gguf.GGUFReader(path)
        fields = fields or {k: v for k, v in reader.fields.items()}
        for t in reader.tensors:
            shape = [int(n) for n in reversed(t.shape)]
            tensors[t.name] = gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float32)
    return tensors, {k: f.contents() for k, f in fields.items() if len(f.data) == 1 and k != "tokenizer.ggml.tokens"}


def to_hf(tensors, interleaved_heads):
    """GGUF names and q/k row order to those of transformers; `interleaved_heads`: (q, k) of the llama family."""
    for key in tensors if interleaved_heads else ():
        if key.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[key] = undo_interleave(tensors[key], interleaved_heads["attn_k" in key])
    return {hf_name(k): v for k, v in tensors.items()}


def load_gguf(path, config=None):
    """The transformers model of a GGUF file; `config` where the file alone does not say all (tiny models know it)."""
    paths = sorted(path.parent.glob(path.name.replace("-00001-of-", "-*-of-")))
    tensors, keys = read_gguf_tensors(paths)
    tensors.pop("rope_freqs.weight", None)
    arch = keys["general.architecture"]
    heads = keys[f"{arch}.attention.head_count"], keys[f"{arch}.attention.head_count_kv"]
    state = to_hf(tensors, heads if arch == "llama" else None)
    if config is None:
        config = transformers.LlamaConfig(
            vocab_size=len(state["model.embed_tokens.weight"]), hidden_size=keys["llama.embedding_length"],
            intermediate_size=keys["llama.feed_forward_length"], num_hidden_layers=keys["llama.block_count"],
            num_attention_heads=heads[0], num_key_value_heads=heads[1],
            max_position_embeddings=keys["llama.context_length"],
            rms_norm_eps=keys["llama.attention.layer_norm_rms_epsilon"], tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": keys["llama.rope.freq_base"]},
            attn_implementation="eager")
    return make_net(config, state)


def make_net(config, state):
    net = {"llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM,
           "qwen3": transformers.Qwen3ForCausalLM}[config.model_type](config).float().eval()
    missing, unexpected = net.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in state.items()}, strict=False)
    if unexpected or (missing and (missing != ["lm_head.weight"] or not config.tie_word_embeddings)):
        sys.exit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    net.tie_weights()
    return net


def load_folder(folder):
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    state = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= {k: v.float().numpy() for k, v in load_file(path).items()}
    return make_net(config, state)


def load_tiny(path):
    if path.is_dir():
        return load_folder(path)
    spec = max((n for n in tiny.MODELS if path.name.startswith(n)), key=len)
    return load_gguf(path, tiny.hf_config(tiny.MODELS[spec]))


# ---- Running them

@torch.inference_mode()
def forward_rows(net, tokens):
    return net(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


@torch.inference_mode()
def greedy(net, tokens, n):
    """n greedy tokens, the gap between the two best logits at each, and the last prompt row."""
    ids, gaps, cache, step, first = [], [], None, torch.tensor([tokens]), None
    for _ in range(n):
        out = net(step, cache=cache, use_cache=True, logits_to_keep=1)
        cache, row = out.cache, out.logits[0, -1]
        first = row.numpy() if first is None else first
        best = torch.topk(row, 2)
        ids.append(int(best.indices[0]))
        gaps.append(round(float(best.values[0] - best.values[1]), 6))
        step = torch.tensor([[ids[-1]]])
    return ids, gaps, first


def write_golden(path, model, vocab_size, encoding, prompts, rows):
    header = json.dumps({"model": model, "made_by": VERSIONS, "vocab_size": vocab_size, "encoding": encoding,
                         "prompts": prompts}, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as out:
        out.write(MAGIC + struct.pack("<I", len(header)) + header)
        for row in rows:
            if encoding == "f32":
                out.write(row.astype("<f4").tobytes())
            else:
                scale = np.float32(np.abs(row).max() / 32767)
                out.write(scale.astype("<f4").tobytes() + np.rint(row / scale).astype("<i2").tobytes())


def read_golden(path):
    data = path.read_bytes()
    length = struct.unpack("<I", data[8:12])[0]
    header = json.loads(data[12:12 + length])
    return header, np.frombuffer(data[12 + length:], "<f4").reshape(-1, header["vocab_size"])


# ---- Tiny models

# Each family has every length 1..130; other files of the same weights or types have a few rows.
EVERY_LENGTH = {"llama-gqa", "llama-mha", "llama3-rope", "llama-yarn", "qwen2-bias", "qwen3-qknorm"}
SOME_ROWS = [0, 1, 6, 32, 63, 64, 129]


def tiny_golden(path):
    model = path.name.split("-00001-of-")[0].removesuffix(".gguf")
    return model, *golden_of(load_tiny(path), model in EVERY_LENGTH and path.is_dir())


def golden_of(net, every):
    rng = np.random.default_rng(7)
    prompts, rows = [], []
    for length in [130, 1, 5, 17, 64, 100] if every else [130]:
        tokens = rng.integers(len(tiny.SPECIALS), tiny.VOCAB_SIZE, length).tolist()
        logits = forward_rows(net, tokens)
        keep = list(range(130)) if every and length == 130 else SOME_ROWS if length == 130 else [length - 1]
        ids, gaps, _ = greedy(net, tokens, 32)
        prompts.append({"tokens": tokens, "rows": keep, "at": len(rows), "greedy": ids, "gaps": gaps, "kind": "raw"})
        rows += [logits[r] for r in keep]
    return prompts, rows


def golden_name(path):
    """Folder x and file x.gguf hold the same model, so their goldens need two names."""
    return path.name.split("-00001-of-")[0] if path.is_dir() else path.name.split("-00001-of-")[0].removesuffix(
        ".gguf") + ".gguf"


def tiny_paths(models):
    later = [p for p in models.glob("*-of-*.gguf") if "-00001-of-" not in p.name]
    return [p for p in sorted(models.iterdir()) if (p.is_dir() or p.suffix == ".gguf") and p not in later]


def make_tiny(arguments):
    for path in tiny_paths(arguments.models):
        model, prompts, rows = tiny_golden(path)
        write_golden(arguments.out / f"{golden_name(path)}.golden", model, tiny.VOCAB_SIZE, "f32", prompts, rows)


def check_tiny(arguments):
    for path in tiny_paths(arguments.models):
        _, prompts, rows = tiny_golden(path)
        header, stored = read_golden(arguments.golden / f"{golden_name(path)}.golden")
        error = np.abs(stored - np.stack(rows)).max() / np.abs(stored).max()
        same = [p["tokens"] for p in prompts] == [p["tokens"] for p in header["prompts"]]
        print(f"{path.name}: relative error {error:.2e}")
        if error > 1e-5 or not same:
            sys.exit(f"{path.name}: differs from {header['made_by']}")


def make_recipe(arguments):
    config = transformers.LlamaConfig(
        vocab_size=288, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=1, head_dim=64, max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="eager")
    for dtype in recipe_model.TYPES:
        net = make_net(config, to_hf(recipe_model.tensors(dtype), (4, 1)))
        model = f"recipe-{dtype.lower()}.gguf"
        write_golden(arguments.out / f"{model}.golden", model, 288, "f32", *golden_of(net, False))


# ---- The default model

N_GREEDY = 64


def real_golden(arguments):
    import real_prompts
    net = load_gguf(arguments.model)
    prompts, rows = [], []
    for i, (kind, tokens) in enumerate(real_prompts.token_lists(arguments.model)):
        ids, gaps, last = greedy(net, tokens, N_GREEDY)
        prompts.append({"tokens": tokens, "rows": [len(tokens) - 1], "at": len(rows), "greedy": ids, "gaps": gaps,
                        "kind": kind})
        rows.append(last)
        print(f"{i}: {kind}, {len(tokens)} tokens, least gap {min(gaps)}", flush=True)
    write_golden(arguments.out / f"{arguments.model.stem}.golden", arguments.model.stem, len(rows[0]), "i16", prompts,
                 rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, function, flags in (("tiny", make_tiny, ("--models", "--out")),
                                  ("recipe", make_recipe, ("--out",)),
                                  ("check", check_tiny, ("--models", "--golden")),
                                  ("real", real_golden, ("--model", "--out"))):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        for flag in flags:
            command.add_argument(flag, type=pathlib.Path, required=True)
    parsed = parser.parse_args()
    parsed.function(parsed)
