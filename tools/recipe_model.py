"""The weights of tests/golden/recipe_model.h, which states the rule, dequantised by gguf-py. Needs no file."""
import gguf
import numpy as np

GGML = gguf.GGMLQuantizationType
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# (place in the block, high byte) of each half-precision field
HALVES = {"Q8_0": [(0, 0x14)], "Q4_0": [(0, 0x24)], "Q4_1": [(0, 0x24), (2, 0xB0)], "Q5_0": [(0, 0x20)],
          "Q5_1": [(0, 0x20), (2, 0xB0)], "Q4_K": [(0, 0x0C), (2, 0x18)], "Q5_K": [(0, 0x08), (2, 0x18)],
          "Q6_K": [(208, 0x04)]}
SHAPES = {"token_embd.weight": (288, 256), "blk.0.attn_norm.weight": (256,), "blk.0.attn_q.weight": (256, 256),
          "blk.0.attn_k.weight": (64, 256), "blk.0.attn_v.weight": (64, 256), "blk.0.attn_output.weight": (256, 256),
          "blk.0.ffn_norm.weight": (256,), "blk.0.ffn_gate.weight": (256, 256), "blk.0.ffn_up.weight": (256, 256),
          "blk.0.ffn_down.weight": (256, 256), "output_norm.weight": (256,)}


def mix(x):
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream(tensor, n):
    words = mix(np.arange((n + 7) // 8, dtype=np.uint64) | np.uint64((tensor + 1) << 32))
    return words.view(np.uint8)[:n].copy()


def plain(tensor, shape, mean, divisor):
    bytes_ = stream(tensor, int(np.prod(shape))).astype(np.float32)
    return (np.float32(mean) + (bytes_ - 128) / np.float32(divisor)).reshape(shape)


def tensor_values(dtype, tensor, shape):
    if len(shape) == 1:
        return plain(tensor, shape, 1, 512)
    if dtype not in HALVES:
        return plain(tensor, shape, 0, 1024)
    per_block, size = gguf.GGML_QUANT_SIZES[GGML[dtype]]
    n_blocks = int(np.prod(shape)) // per_block
    blocks = stream(tensor, n_blocks * size).reshape(n_blocks, size)
    for at, high in HALVES[dtype]:
        blocks[:, at + 1] = high | (blocks[:, at + 1] & 1)
    return gguf.quants.dequantize(blocks, GGML[dtype]).reshape(shape).astype(np.float32)


def tensors(dtype):
    """Under GGUF names, q and k rows as the file has them (in pairs)."""
    return {name: tensor_values(dtype, i, shape) for i, (name, shape) in enumerate(SHAPES.items())}
