"""Float arrays to GGUF blocks of every supported type, as bytes.

gguf-py quantises the plain and the 32-wide types; it only reads the 256-wide ones, so those are packed here: simple
round-to-nearest with one pass for the scales. They need not be good, only valid and deterministic."""
import gguf
import numpy as np

GGML = gguf.GGMLQuantizationType


def pack_scales(scales, mins):
    """Eight 6-bit scales and eight 6-bit minima in 12 bytes: low bits first, the high pairs of 4..7 over 0..3."""
    out = np.zeros((len(scales), 12), np.uint8)
    out[:, 0:4] = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    out[:, 4:8] = mins[:, :4] | (mins[:, 4:] >> 4) << 6
    out[:, 8:12] = (scales[:, 4:] & 15) | (mins[:, 4:] & 15) << 4
    return out


def half(values):
    return values.astype(np.float16)


def affine_blocks(blocks, n_levels):
    """Q4_K and Q5_K: w = d * scale * q - dmin * min in groups of 32. Gives (d, dmin, scales, mins, q)."""
    groups = blocks.reshape(-1, 8, 32)
    low = np.minimum(groups.min(-1), 0)
    step = (groups.max(-1) - low) / (n_levels - 1)
    d, dmin = half(step.max(-1) / 63), half((-low).max(-1) / 63)
    d32, dmin32 = (np.maximum(x.astype(np.float32), 1e-8)[:, None] for x in (d, dmin))
    scales = np.clip(np.rint(step / d32), 0, 63).astype(np.uint8)
    mins = np.clip(np.rint(-low / dmin32), 0, 63).astype(np.uint8)
    scale = np.maximum(d32 * scales, 1e-8)[..., None]
    q = np.clip(np.rint((groups + (dmin32 * mins)[..., None]) / scale), 0, n_levels - 1).astype(np.uint8)
    return d, dmin, scales, mins, q


def nibbles(q):
    """Groups of 32 values in pairs: the first in the low halves of 32 bytes, the second in the high halves."""
    pairs = q.reshape(-1, 4, 2, 32)
    return ((pairs[:, :, 0] & 15) | (pairs[:, :, 1] & 15) << 4).reshape(len(q), 128)


def q4_k(blocks):
    d, dmin, scales, mins, q = affine_blocks(blocks, 16)
    head = np.stack([d, dmin], -1).view(np.uint8)
    return np.concatenate([head, pack_scales(scales, mins), nibbles(q)], -1)


def q5_k(blocks):
    d, dmin, scales, mins, q = affine_blocks(blocks, 32)
    head = np.stack([d, dmin], -1).view(np.uint8)
    high = np.zeros((len(q), 32), np.uint8)
    for group in range(8):
        high |= (q[:, group] >> 4) << group
    return np.concatenate([head, pack_scales(scales, mins), high, nibbles(q)], -1)


def q6_k(blocks):
    groups = blocks.reshape(-1, 16, 16)
    peak = np.abs(groups).max(-1) / 31
    d = half(peak.max(-1) / 127)
    d32 = np.maximum(d.astype(np.float32), 1e-8)[:, None]
    scales = np.clip(np.rint(peak / d32), -128, 127).astype(np.int8)
    scale = np.maximum(d32 * scales, 1e-8)[..., None]
    q = (np.clip(np.rint(groups / scale), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.stack([(q[:, :, 0] & 15) | (q[:, :, 2] & 15) << 4, (q[:, :, 1] & 15) | (q[:, :, 3] & 15) << 4], 2)
    high = (q[:, :, 0] >> 4) | (q[:, :, 1] >> 4) << 2 | (q[:, :, 2] >> 4) << 4 | (q[:, :, 3] >> 4) << 6
    n = len(blocks)
    return np.concatenate([low.reshape(n, 128), high.reshape(n, 64), scales.view(np.uint8), d[:, None].view(np.uint8)], -1)


OWN = {GGML.Q4_K: q4_k, GGML.Q5_K: q5_k, GGML.Q6_K: q6_k}


def quantise(array, kind):
    """The array's bytes in type `kind`, rows kept as the leading dimensions."""
    if kind == GGML.F32:
        return array.astype(np.float32)
    if kind == GGML.F16:
        return array.astype(np.float16)
    if kind not in OWN:
        return gguf.quants.quantize(array, kind)
    packed = OWN[kind](array.reshape(-1, 256).astype(np.float32))
    return packed.reshape(*array.shape[:-1], -1)


def self_test():
    rng = np.random.default_rng(1)
    array = rng.standard_normal((8, 512)).astype(np.float32)
    for kind, bound in ((GGML.Q4_K, 0.3), (GGML.Q5_K, 0.15), (GGML.Q6_K, 0.06)):
        error = np.abs(gguf.quants.dequantize(quantise(array, kind), kind) - array).max()
        if error > bound:
            raise SystemExit(f"{kind.name}: error {error}, expected at most {bound}")


if __name__ == "__main__":
    self_test()
