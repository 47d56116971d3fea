"""What the tiny test models are: their configurations, random weights and tokenizer. Deterministic by seed.

make_tiny_model.py writes them to files, make_golden.py runs them through transformers."""
import json
import zlib

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
           "qwen3": (Qwen3Config, Qwen3ForCausalLM)}

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<tool>", "</tool>", "<think>", "</think>"]
MERGES = ["h e", "i n", "Ġ t", "r e", "o n", "Ġt he", "Ġ a", "e r", "n d", "a t", "o u", "Ġ s", "l l", "Ġa nd", "in g",
          "Ġ w", "o r", "Ġ c", "e s", "Ġ o", "Ġo f", "he ll", "hell o", "Ġw or"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
            "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """The printable character that stands for each byte in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(shifted)) for b in range(256)]


VOCAB = SPECIALS + byte_alphabet() + [m.replace(" ", "") for m in MERGES]
VOCAB_SIZE = len(VOCAB)  # 288
EOS, BOS, PAD = 2, 1, 3


def tokenizer_json():
    added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, s in enumerate(SPECIALS)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(VOCAB)}, "merges": [m.split(" ") for m in MERGES]},
    }


def tokenizer_config():
    return {"bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS], "pad_token": SPECIALS[PAD], "unk_token": None,
            "add_bos_token": False, "model_max_length": 512, "tokenizer_class": "GPT2Tokenizer"}


def model(family, width, ffn, layers, heads, kv_heads, head_dim, tied, rope=None, theta=10000.0, eps=1e-5,
          positions=512):
    return dict(family=family, width=width, ffn=ffn, layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                tied=tied, rope=rope or {"rope_type": "default"}, theta=theta, eps=eps, positions=positions)


# The smallest that show a family's own features. `formats` is written in every format; `width256` as a mixture.
MODELS = {
    "llama-gqa": model("llama", 48, 96, 2, 3, 1, 16, tied=True, theta=100000.0),
    "llama-mha": model("llama", 64, 80, 2, 2, 2, 32, tied=False),
    "llama3-rope": model("llama", 32, 48, 2, 2, 1, 32, tied=True, theta=500000.0, rope={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}),
    "llama-yarn": model("llama", 32, 48, 2, 2, 1, 32, tied=True, rope={
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}),
    "llama-linear": model("llama", 32, 48, 2, 2, 1, 16, tied=True, rope={"rope_type": "linear", "factor": 2.0}),
    "qwen2-bias": model("qwen2", 32, 48, 2, 4, 2, 16, tied=True, theta=1000000.0, eps=1e-6),
    "qwen3-qknorm": model("qwen3", 32, 48, 2, 2, 1, 64, tied=True, theta=1000000.0, eps=1e-6),
    "formats": model("llama", 32, 48, 2, 2, 1, 16, tied=True),
    "width64": model("llama", 64, 64, 2, 2, 1, 32, tied=True),
    "width256": model("llama", 256, 256, 1, 4, 1, 64, tied=True),
}


def hf_config(spec):
    """The transformers configuration object of a tiny model."""
    config_class = CLASSES[spec["family"]][0]
    return config_class(
        vocab_size=VOCAB_SIZE, hidden_size=spec["width"], intermediate_size=spec["ffn"],
        num_hidden_layers=spec["layers"], num_attention_heads=spec["heads"], num_key_value_heads=spec["kv_heads"],
        head_dim=spec["head_dim"], max_position_embeddings=spec["positions"], rms_norm_eps=spec["eps"],
        tie_word_embeddings=spec["tied"], rope_parameters={**spec["rope"], "rope_theta": spec["theta"]},
        bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, attn_implementation="eager")


def build(spec, state=None):
    """The transformers model in fp32, with the given weights or zeros."""
    net = CLASSES[spec["family"]][1](hf_config(spec)).float().eval()
    if state is not None:
        missing, unexpected = net.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
        if unexpected or any(k != "lm_head.weight" or not spec["tied"] for k in missing):
            raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
        net.tie_weights()
    return net


def weights(name, dtype=torch.bfloat16):
    """Random weights of model `name`, rounded to `dtype`, as float32 arrays under their Hugging Face names."""
    spec = MODELS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    state = {}
    for key, value in build(spec).state_dict().items():
        if key == "lm_head.weight" and spec["tied"]:
            continue
        shape = tuple(value.shape)
        if key.endswith("norm.weight"):
            array = 1.0 + 0.2 * rng.standard_normal(shape)
        elif key.endswith("bias"):
            array = 0.5 * rng.standard_normal(shape)
        else:
            # Wide enough that attention is far from uniform, and that the layers outweigh the embedding in the logits.
            array = (0.4 if "embed" in key else 1.5 / np.sqrt(shape[-1])) * rng.standard_normal(shape)
        state[key] = torch.from_numpy(array.astype(np.float32)).to(dtype).float().numpy()
    return state


def config_json(spec, dtype, spelling):
    """config.json as transformers 5 writes it ("new"), or as files up to 2025 spell it ("old")."""
    family, architecture = spec["family"], CLASSES[spec["family"]][1].__name__
    config = {
        "architectures": [architecture], "model_type": family, "vocab_size": VOCAB_SIZE, "hidden_size": spec["width"],
        "intermediate_size": spec["ffn"], "num_hidden_layers": spec["layers"], "num_attention_heads": spec["heads"],
        "num_key_value_heads": spec["kv_heads"], "max_position_embeddings": spec["positions"], "hidden_act": "silu",
        "rms_norm_eps": spec["eps"], "tie_word_embeddings": spec["tied"], "attention_dropout": 0.0,
        "initializer_range": 0.02, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD, "use_cache": True}
    if spec["head_dim"] * spec["heads"] != spec["width"] or family == "qwen3":
        config["head_dim"] = spec["head_dim"]
    if family == "llama":
        config |= {"attention_bias": False, "mlp_bias": False}
    else:
        config |= {"use_sliding_window": False, "sliding_window": None, "max_window_layers": spec["layers"]}
    if spelling == "new":
        config |= {"dtype": dtype, "rope_parameters": {**spec["rope"], "rope_theta": spec["theta"]},
                   "transformers_version": "5.0.0"}
        if family != "llama":
            config["layer_types"] = ["full_attention"] * spec["layers"]
        return config
    scaling = dict(spec["rope"])
    if scaling["rope_type"] == "yarn":  # Qwen2.5 spells it so.
        scaling["type"] = scaling.pop("rope_type")
    config |= {"torch_dtype": dtype, "rope_theta": spec["theta"], "transformers_version": "4.45.0",
               "rope_scaling": None if spec["rope"]["rope_type"] == "default" else scaling}
    return config


def dump(value):
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
