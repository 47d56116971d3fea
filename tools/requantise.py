#!/usr/bin/env python3
"""Writes the model of a GGUF file again with every matrix in another type, to compare speed and fidelity per type.

  requantise.py models/SmolLM2-135M-Instruct.Q4_1.gguf Q8_0 models/SmolLM2-135M-Instruct.Q8_0.gguf

Matrices are dequantised by gguf-py and packed anew; vectors and metadata stay as they are. A 256-wide type does not fit
a row length such as 576; those rows take the 32-wide type of the same order (Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0).
Needs numpy and gguf."""
import argparse
import pathlib

import gguf

from quantise import quantise

GGML = gguf.GGMLQuantizationType
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
NARROW = {GGML.Q4_K: GGML.Q5_0, GGML.Q5_K: GGML.Q5_1, GGML.Q6_K: GGML.Q8_0}
FILE_TYPES = {"F32": "ALL_F32", "F16": "MOSTLY_F16", "BF16": "MOSTLY_BF16", "Q4_K": "MOSTLY_Q4_K_M",
              "Q5_K": "MOSTLY_Q5_K_M", "Q6_K": "MOSTLY_Q6_K"}


def type_for(kind, n_columns):
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    return kind if n_columns % block == 0 else NARROW.get(kind, GGML.F16)


def copy_fields(reader, writer, kind):
    """Every key of the file, except those that the writer makes itself."""
    own = {"general.architecture", "general.file_type", "general.quantization_version"}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in own:
            continue
        sub_type = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type)
    writer.add_file_type(gguf.LlamaFileType[FILE_TYPES.get(kind, f"MOSTLY_{kind}")])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def requantise(source, kind, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_fields(reader, writer, kind)
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        if len(shape) < 2:
            writer.add_tensor(tensor.name, values)
            continue
        packed = type_for(GGML[kind], shape[-1])
        writer.add_tensor(tensor.name, quantise(values, packed), raw_dtype=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("target", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.target.parent.mkdir(parents=True, exist_ok=True)
    requantise(arguments.source, arguments.type, arguments.target)
