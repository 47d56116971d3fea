"""The 20,000 mixed strings and 4,000 id lists that tokenizers are compared on, the same on every machine.

Standard library only, and none of its random numbers, whose order may change. A file of them holds counts and lengths
as "<I": n strings, each with its length in bytes and UTF-8; then n lists, each with its length and that many 32-bit
numbers, to be taken modulo the size of a vocabulary.
"""
import struct

SEED = 20261201
N_STRINGS = 20_000
N_LISTS = 4_000


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ z >> 31

    def below(self, n):
        return self.next() % n

    def pick(self, items):
        return items[self.below(len(items))]


WORDS = """the of and to in is was for that with as on by at from hello world Hello World HELLO tokenizer model layer
 attention prefill decode graph replay batch sequence Zürich naïve façade cœur Ångström straße élan señor don't can't
 I'm you're we've he'll she'd it's IT'S WE'VE they'LL O'Neil rock'n'roll 'tis e.g. i.e. etc. U.S.A. www.example.org
 internationalization antidisestablishmentarianism supercalifragilistic lorem ipsum dolor sit amet""".split()
CODE = [
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {", "    if (a[i] != b[i]) return false;\n",
    "}\n\n", "#include <vector>\n", "std::vector<std::string> names;", "x = {'a': 1, \"b\": [2, 3]}",
    "SELECT * FROM t WHERE id=42;", "\tgo func() { ch <- 1 }()\n", "let v: Vec<u8> = vec![0; 16];",
    "// TODO(#123): fix\r\n", "<div class=\"x\">&nbsp;</div>", "$HOME/.cache/*.json", "a->b.c[d]&=~e|f^g;", "0x1F4a9",
    "1e-9", "3.14159", "print(f\"{x!r:>{w}}\")", "λx. x", "===", "!=", ">>>", "/* comment */", "\\n\\t\\\\",
    "git commit -m 'fix'", "https://a.b/c?d=e&f=%20#g", "user@example.com", "__init__", "camelCaseName",
]
SCRIPTS = [
    "你好世界", "这是一个测试。", "人工智能，", "日本語のテキスト", "カタカナ", "ひらがな、", "한국어 문장", "안녕하세요", "Привет, мир!", "Ελληνικά",
    "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "ไทยภาษา", "தமிழ்", "ქართული", "Հայերեն", "አማርኛ", "Tiếng Việt",
    "Đây là", "ﬁ ﬂ", "ＡＢＣ１２３", "½ ¾ ²³", "ⅷ Ⅻ", "١٢٣٤", "१२३", "①②③", "Ⅳ", "一二三", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𒀀𒀁", "ǅ ǈ", "ſs",
    "'ſ x", "'ſt", "K Å",
]
EMOJI = [
    "😀", "🚀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "❤️", "☃", "✈️", "🤷🏻‍♀️", "1️⃣", "🫠", "™", "©", "→", "∑∞≠", "┌─┐", "█▓▒",
]
MARKS = [
    "e\u0301", "a\u0300\u0316", "o\u0302\u0323", "n\u0303", "u\u0308\u0304", "\u0301", "\u0327\u0301",
    "\u1100\u1161\u11a8", "\u0915\u093c", "Å", "\u2126", "\u212b", "q\u0307\u0323", "\u0b92\u0bd7", "\u0f71\u0f72",
    "\u3099", "か\u3099", "ẛ\u0323",
]
SPACES = [
    " ", "  ", "   ", "    ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", " \n", "\n ", " \t ", "\u00a0",
    "\u2003", "\u3000", "\u200b", "\u2028", "\u0085", "\u180e", "\ufeff", "\x0b", "\x0c", "\x1c", "        ",
    "                 ", "  \n  \n",
]
SPECIALS = [
    "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>",
    "<|start_header_id|>", "<fim_prefix>", "<repo_name>", "<|im_start|>user\n", "<|im_end|>\n", "<|", "|>", "<0x0A>",
    "▁", "Ġ", "Ċ", "[INST]", "<|im_", "<s", "<s>G",
]
ODD = [
    "\x00", "\x01", "\x7f", "\x80", "\xad", "\ufffd", "\uffff", "\U0010ffff", "'", "''", "'s", "'S", "'re", "'RE",
    "'vE", "’s", "\"", "`", "´", "...", "…", "--", "—", "!!", "?!", "(", "[[", "#", "##", "@", "$$", "%", "&&", "*",
    "+", "~",
]
RUNS = "A a 7 \n \t = - é 中 😀 ' . _ \u0301 ١ /".split(" ") + [" "]


def digits(random):
    return "".join(str(random.below(10)) for _ in range(1 + random.below(9)))


def any_character(random):
    while True:
        code = random.below(0x110000 if random.below(4) == 0 else 0x3000)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def run(random):
    return random.pick(RUNS) * (1 + random.below(40))


KINDS = [lambda r: r.pick(WORDS), lambda r: " " + r.pick(WORDS), lambda r: " " + r.pick(WORDS),
         lambda r: r.pick(CODE), lambda r: r.pick(SCRIPTS), lambda r: r.pick(EMOJI), lambda r: r.pick(SPACES),
         lambda r: r.pick(SPACES), lambda r: r.pick(SPECIALS), lambda r: r.pick(ODD), digits, any_character, run]


def strings():
    random = Random(SEED)
    for i in range(N_STRINGS):
        parts = [random.pick(KINDS)(random) for _ in range(1 + random.below(12))]
        if i % 10 == 0:  # marks that NFC moves or joins, in a tenth, so that the others compare what NFC does not touch
            parts.insert(random.below(len(parts) + 1), random.pick(MARKS))
        yield "".join(parts)


def lists():
    """A third of the numbers is small: single bytes in most vocabularies, so that characters come cut and broken."""
    random = Random(SEED + 1)
    for _ in range(N_LISTS):
        yield [random.below(300) if random.below(3) == 0 else random.below(2**31) for _ in range(1 + random.below(16))]


def write(path):
    with open(path, "wb") as file:
        file.write(struct.pack("<I", N_STRINGS))
        for text in strings():
            data = text.encode()
            file.write(struct.pack("<I", len(data)) + data)
        file.write(struct.pack("<I", N_LISTS))
        for numbers in lists():
            file.write(struct.pack(f"<I{len(numbers)}I", len(numbers), *numbers))
