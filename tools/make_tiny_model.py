#!/usr/bin/env python3
"""Writes the tiny test models: Hugging Face folders and GGUF files of every supported kind.

  make_tiny_model.py --out tests/golden/models

The same seed gives the same bytes. Width 256 in every type needs no files: see tests/golden/recipe_model.h.
Needs numpy, torch, transformers, safetensors and gguf."""
import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

import tiny_models as tiny
from quantise import quantise

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
GGML = gguf.GGMLQuantizationType


# ---- Hugging Face folders

def write_safetensors(path, state):
    save_file(state, path, metadata={"format": "pt"})
    path.chmod(0o644)


def write_shards(folder, state, n_shards):
    if n_shards == 1:
        write_safetensors(folder / "model.safetensors", state)
        return
    names = sorted(state)
    weight_map = {}
    for i in range(n_shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        part = {k: state[k] for k in names[i::n_shards]}
        write_safetensors(folder / file, part)
        weight_map |= {k: file for k in part}
    total = sum(t.numel() * t.element_size() for t in state.values())
    (folder / "model.safetensors.index.json").write_text(
        tiny.dump({"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}))


def write_hf(folder, name, dtype="BF16", n_shards=1, spelling="new", template="jinja"):
    """`template`: where the chat template stands: jinja (own file), string or list (in tokenizer_config.json)."""
    spec = tiny.MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    state = {k: torch.from_numpy(v).to(DTYPES[dtype]).contiguous() for k, v in tiny.weights(name).items()}
    write_shards(folder, state, n_shards)
    torch_name = str(DTYPES[dtype]).removeprefix("torch.")
    (folder / "config.json").write_text(tiny.dump(tiny.config_json(spec, torch_name, spelling)))
    (folder / "generation_config.json").write_text(
        tiny.dump({"bos_token_id": tiny.BOS, "eos_token_id": [tiny.EOS, 0], "do_sample": True, "temperature": 0.7,
                   "top_p": 0.8, "top_k": 20}))
    (folder / "tokenizer.json").write_text(json.dumps(tiny.tokenizer_json(), ensure_ascii=False))
    config = tiny.tokenizer_config()
    if template == "jinja":
        (folder / "chat_template.jinja").write_text(tiny.TEMPLATE)
    else:
        config["chat_template"] = tiny.TEMPLATE if template == "string" else [
            {"name": "tool_use", "template": "unused"}, {"name": "default", "template": tiny.TEMPLATE}]
    (folder / "tokenizer_config.json").write_text(tiny.dump(config))


# ---- GGUF files

GGUF_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
              "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
              "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "model.embed_tokens": "token_embd",
              "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(hf_name):
    stem, kind = hf_name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def interleave(array, n_heads):
    """Rows of q and k as converters of the llama family store them: halves of a head become pairs (2i, 2i + 1)."""
    rows = array.shape[0]
    return array.reshape(n_heads, 2, rows // n_heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def llama3_factors(spec):
    """rope_freqs.weight: what a rotation frequency is divided by. (Llama 3.1: long waves fully, middle ones smoothly)"""
    rope, dim = spec["rope"], spec["head_dim"]
    waves = 2 * np.pi * spec["theta"] ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    turns = rope["original_max_position_embeddings"] / waves
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def write_metadata(out, name, file_type):
    spec = tiny.MODELS[name]
    out.add_name(name)
    out.add_context_length(spec["positions"])
    out.add_embedding_length(spec["width"])
    out.add_block_count(spec["layers"])
    out.add_feed_forward_length(spec["ffn"])
    out.add_head_count(spec["heads"])
    out.add_head_count_kv(spec["kv_heads"])
    out.add_key_length(spec["head_dim"])
    out.add_value_length(spec["head_dim"])
    out.add_rope_dimension_count(spec["head_dim"])
    out.add_rope_freq_base(spec["theta"])
    out.add_layer_norm_rms_eps(spec["eps"])
    out.add_vocab_size(tiny.VOCAB_SIZE)
    out.add_file_type(file_type)
    rope = spec["rope"]
    if rope["rope_type"] in ("linear", "yarn"):
        out.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        out.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        out.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def write_vocabulary(out):
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list(tiny.VOCAB)
    out.add_token_types([3] * len(tiny.SPECIALS) + [1] * (tiny.VOCAB_SIZE - len(tiny.SPECIALS)))
    out.add_token_merges(tiny.MERGES)
    out.add_bos_token_id(tiny.BOS)
    out.add_eos_token_id(tiny.EOS)
    out.add_pad_token_id(tiny.PAD)
    out.add_add_bos_token(False)
    out.add_chat_template(tiny.TEMPLATE)


def type_of(gguf_tensor, shape, dtype):
    """The stored type of a tensor: vectors are F32, matrices `dtype`, or by a rule where `dtype` is a mixture."""
    if len(shape) == 1:
        return GGML.F32
    if dtype == "Q4_K_M":  # The two types of the usual mixture.
        sensitive = "attn_v" in gguf_tensor or "ffn_down" in gguf_tensor or "token_embd" in gguf_tensor
        return GGML.Q6_K if sensitive else GGML.Q4_K
    return GGML[dtype]


def write_gguf(path, name, dtype="BF16", split_tensors=0):
    spec = tiny.MODELS[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    out = gguf.GGUFWriter(path, spec["family"], split_max_tensors=split_tensors)
    write_metadata(out, name, 0)
    write_vocabulary(out)
    tensors = {gguf_name(k): v for k, v in tiny.weights(name).items()}
    if spec["family"] == "llama":
        for key in tensors:
            if "attn_q.weight" in key or "attn_k.weight" in key:
                tensors[key] = interleave(tensors[key], spec["heads" if "attn_q" in key else "kv_heads"])
    if spec["rope"]["rope_type"] == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(spec)
    for key, array in tensors.items():
        kind = type_of(key, array.shape, dtype)
        packed = quantise(array, kind)
        out.add_tensor(key, packed, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


# ---- All of them

FAMILIES = ["llama-gqa", "llama-mha", "llama3-rope", "llama-yarn", "llama-linear", "qwen2-bias", "qwen3-qknorm"]
SMALL_TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


def write_all(out):
    for i, name in enumerate(FAMILIES):
        write_hf(out / name, name, spelling=["old", "new"][i % 2], template=["jinja", "string", "list"][i % 3])
    for name in ("llama3-rope", "llama-yarn", "qwen2-bias", "qwen3-qknorm"):
        write_gguf(out / f"{name}.gguf", name)
    write_hf(out / "formats-bf16-single-old", "formats", "BF16", 1, "old", "string")
    write_hf(out / "formats-bf16-sharded-new", "formats", "BF16", 3, "new", "jinja")
    write_gguf(out / "formats-bf16.gguf", "formats", "BF16")
    write_gguf(out / "formats-bf16-split.gguf", "formats", "BF16", split_tensors=7)
    write_hf(out / "formats-f16-single-new", "formats", "F16", 1, "new", "jinja")
    write_hf(out / "formats-f16-sharded-old", "formats", "F16", 3, "old", "list")
    write_gguf(out / "formats-f16.gguf", "formats", "F16")
    write_gguf(out / "formats-f16-split.gguf", "formats", "F16", split_tensors=7)
    write_hf(out / "formats-f32-single-new", "formats", "F32", 1, "new", "string")
    write_hf(out / "formats-f32-sharded-old", "formats", "F32", 3, "old", "list")
    write_gguf(out / "formats-f32.gguf", "formats", "F32")
    write_gguf(out / "formats-f32-split.gguf", "formats", "F32", split_tensors=7)
    for dtype in SMALL_TYPES:
        write_gguf(out / f"width64-{dtype.lower()}.gguf", "width64", dtype)
    write_gguf(out / "width256-q4_k_m.gguf", "width256", "Q4_K_M")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    write_all(parser.parse_args().out)
