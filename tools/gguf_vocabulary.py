"""Reads the tokenizer.* metadata of a GGUF file with the standard library alone; the tests use it."""
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def string(self):
        length = self.scalar("Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind in SCALARS:
            values = struct.unpack_from(f"<{count}{SCALARS[kind]}", self.data, self.at)
            self.at += struct.calcsize(f"<{count}{SCALARS[kind]}")
            return list(values)
        return [self.value(kind) for _ in range(count)]


def read_vocabulary(path):
    """The tokenizer.ggml.* values without that prefix; strings as bytes."""
    with open(path, "rb") as file:
        reader = Reader(memoryview(file.read()))
    magic, version, _, n_keys = (reader.scalar(code) for code in "IIQQ")
    if magic != 0x46554747 or version not in (2, 3):
        raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
    values = {}
    for _ in range(n_keys):
        key = reader.string().decode()
        value = reader.value(reader.scalar("I"))
        if key.startswith("tokenizer.ggml."):
            values[key.removeprefix("tokenizer.ggml.")] = value
    return values
