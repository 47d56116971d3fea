"""A narrow model of many equal layers with random weights: its steps last as long as a test needs, on a GPU too, while its
weights stay small. Ids are those of the tiny golden model, whose tokenizer it takes. Standard library only."""
import array
import json
import random
import shutil

import rote

WIDTH, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 64, 128, 4, 2, 16, 288
# Byte 3 of a float32, so that its size lies between 2^-7 and 2^-3: sign and the upper exponent.
SIZES = bytes([0x3c, 0x3d, 0xbc, 0xbd][i % 4] for i in range(256))


def matrix(rng, rows, columns):
    raw = bytearray(rng.randbytes(4 * rows * columns))
    raw[3::4] = raw[3::4].translate(SIZES)
    return [rows, columns], array.array("f", raw)


def write(folder, n_layers, tokenizer_of, seed=1):
    """Writes the model; `tokenizer_of` is a model folder with 288 ids."""
    rng = random.Random(seed)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": WIDTH,
        "intermediate_size": FFN, "num_hidden_layers": n_layers, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "max_position_embeddings": 512, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "float32",
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_of / name, folder)
    shapes = {"self_attn.q_proj": (HEADS * HEAD_DIM, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, WIDTH),
              "self_attn.v_proj": (KV_HEADS * HEAD_DIM, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD_DIM),
              "mlp.gate_proj": (FFN, WIDTH), "mlp.up_proj": (FFN, WIDTH), "mlp.down_proj": (WIDTH, FFN)}
    layer = {name: matrix(rng, *shape) for name, shape in shapes.items()}
    layer |= {name: ([WIDTH], array.array("f", [1.0] * WIDTH)) for name in ("input_layernorm", "post_attention_layernorm")}
    tensors = {f"model.layers.{i}.{name}.weight": tensor for i in range(n_layers) for name, tensor in layer.items()}
    tensors["model.norm.weight"] = layer["input_layernorm"]
    tensors["model.embed_tokens.weight"] = matrix(rng, VOCAB, WIDTH)
    rote.write_safetensors(folder / "model.safetensors", tensors)
    return folder
