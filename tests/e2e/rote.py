"""ROTE models: tiny models whose weights alone fix the answer. The embedding is one-hot, attention and MLP add nothing, and
the head maps each token to its successor, so the greedy answer is any chain of tokens that a test wants, through the whole
engine and with no hook in it. A sequence that ends nowhere goes on with its successor; a token without one repeats itself.
Standard library only."""
import array
import json
import math
import struct

WIDTH = 384  # Ids are below it; also the width of the residual stream.
HEAD_DIM, FFN = 64, 64
SCALE = 2.0  # times sqrt(WIDTH): the successor's logit is 39, all others are 0.


def byte_alphabet():
    """The character that stands for each byte in byte-level vocabularies."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


ALPHABET = byte_alphabet()


def entry_of(text):
    return "".join(ALPHABET[b] for b in text.encode())


class Rote:
    """A model folder under construction: ids 0..255 are the bytes, then `pieces`, then `specials`."""

    def __init__(self, pieces=(), specials=("<|im_start|>", "<|im_end|>", "<|endoftext|>")):
        self.pieces, self.specials = list(pieces), list(specials)
        self.n_tokens = 256 + len(self.pieces) + len(self.specials)
        assert self.n_tokens <= WIDTH
        self.logit_width = self.n_tokens
        self.next = {}      # token -> successor
        self.stronger = {}  # token -> an id with a higher logit still
        self.broken = set()  # tokens whose embedding is NaN
        self.config, self.generation, self.tokenizer_config = {}, {}, {}
        self.template = None

    def id(self, text):
        if text in self.specials:
            return 256 + len(self.pieces) + self.specials.index(text)
        return 256 + self.pieces.index(text)

    def chain(self, *ids):
        """Each id is followed by the next; returns the ids."""
        for a, b in zip(ids, ids[1:]):
            assert self.next.setdefault(a, b) == b, f"{a} has two successors"
        return list(ids)

    def write(self, folder):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": self.logit_width,
            "hidden_size": WIDTH, "intermediate_size": FFN, "num_hidden_layers": 1,
            "num_attention_heads": WIDTH // HEAD_DIM, "num_key_value_heads": 1, "max_position_embeddings": 1024,
            "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "torch_dtype": "float32", **self.config}))
        (folder / "tokenizer.json").write_text(json.dumps(self.tokenizer_json()))
        (folder / "tokenizer_config.json").write_text(json.dumps(self.tokenizer_config))
        (folder / "generation_config.json").write_text(json.dumps(self.generation))
        if self.template is not None:
            (folder / "chat_template.jinja").write_text(self.template)
        write_safetensors(folder / "model.safetensors", self.tensors())
        return folder

    def tokenizer_json(self):
        entries = [ALPHABET[b] for b in range(256)] + [entry_of(piece) for piece in self.pieces]
        added = [{"id": self.id(text), "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                  "normalized": False, "special": True} for text in self.specials]
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                                    "use_regex": True},
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                          "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                          "vocab": {entry: i for i, entry in enumerate(entries)}, "merges": []}}

    def tensors(self):
        layer = "model.layers.0."
        embedding = {(i, i): 1.0 for i in range(self.logit_width)}
        embedding |= {(token, token): math.nan for token in self.broken}
        head = {(self.next.get(token, token), token): SCALE for token in range(self.n_tokens)}
        head |= {(winner, token): 1.5 * SCALE for token, winner in self.stronger.items()}
        zeros = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (HEAD_DIM, WIDTH),
                 "self_attn.v_proj": (HEAD_DIM, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
                 "mlp.gate_proj": (FFN, WIDTH), "mlp.up_proj": (FFN, WIDTH), "mlp.down_proj": (WIDTH, FFN)}
        tensors = {layer + name + ".weight": matrix(*shape) for name, shape in zeros.items()}
        for name in (layer + "input_layernorm", layer + "post_attention_layernorm", "model.norm"):
            tensors[name + ".weight"] = ([WIDTH], array.array("f", [1.0] * WIDTH))
        tensors["model.embed_tokens.weight"] = matrix(self.logit_width, WIDTH, embedding)
        tensors["lm_head.weight"] = matrix(self.logit_width, WIDTH, head)
        return tensors


def matrix(rows, columns, values=()):
    data = array.array("f", bytes(4 * rows * columns))
    for row, column in values:
        data[row * columns + column] = values[row, column]
    return [rows, columns], data


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(data)]}
        offset += 4 * len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            data.tofile(file)
