"""Fifty prompts of 1 to 1,500 tokens for the default model, raw and chat, as token ids."""
import random

import gguf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 80, 100, 127, 128, 129, 150, 200, 255,
           256, 257, 300, 350, 400, 500, 511, 512, 513, 600, 700, 800, 900, 1000, 1023, 1024, 1025, 1100, 1200, 1300,
           1400, 1499, 1500]
SEED = 20

QUESTIONS = [
    "What is the capital of France, and what is it known for?",
    "Explain in simple words why the sky is blue.",
    "Write a short poem about a lighthouse in winter.",
    "How do I reverse a list in Python?",
    "Give me three ideas for a vegetarian dinner.",
    "Summarise the following notes in two sentences:",
    "What is the difference between a process and a thread?",
    "Continue this story:",
    "Translate to French: good morning, how are you today?",
    "Which of these statements is wrong, and why?",
]
SENTENCES = [
    "The old harbour wakes before the town does, and the first boats leave while the lamps are still lit.",
    "A cache is a promise that the recent past predicts the near future.",
    "Water boils at 100 degrees at sea level, but on a mountain of 3,000 metres it boils at about 90.",
    "She counted the steps twice: 47 going up, 46 coming down.",
    "def mean(values):\n    return sum(values) / len(values)\n",
    "Nobody had opened the letter, because nobody had noticed that it was there.",
    "The committee met on 12 March, agreed on nothing, and met again on 19 March.",
    "Light from the Sun needs a little over eight minutes to reach us.",
    "If the queue is full, the server answers at once that the client should try later.",
    "Bread needs flour, water, salt, yeast and, above all, time.",
    "for (int i = 0; i < n; ++i) { total += prices[i] * counts[i]; }\n",
    "In the dry season the river becomes a road, and in the wet season the road becomes a river.",
    "A graph is recorded once and replayed many times, so whatever changes must live in a buffer.",
    "The museum keeps a clock that has been wrong since 1911, on purpose.",
    "Trees measure the years in rings, wide ones for rain and narrow ones for drought.",
    "\"I would rather be late than lost,\" said the driver, and missed the turning again.",
    "The three numbers were 17, 289 and 4,913, and each was the one before times seventeen.",
    "Children in the valley learn to swim before they learn to ride a bicycle.",
    "Every message names what was read, what was expected and what was found.",
    "On the last page somebody had written, in pencil, a recipe for plum jam.",
    "El tren sale a las ocho y llega a Madrid poco antes de las once.",
    "An orchestra tunes to the oboe because its pitch is hard to change.",
    "The proof takes four lines; finding it took eleven years.",
    "SELECT name, COUNT(*) FROM visits GROUP BY name ORDER BY 2 DESC;\n",
    "They painted the bridge red so that it could be seen in fog.",
    "When the wind turned, the smoke from the kilns drifted over the vineyards.",
    "A good map leaves out almost everything.",
    "The cat, who had opinions about punctuality, sat on the alarm clock.",
    "Salt lowers the freezing point of water, which is why roads are salted in winter.",
    "He read the contract again, slowly, and this time he saw the second signature.",
]


def load_tokenizer(path):
    """The vocabulary of the GGUF file in the tokenizers library; the ids are stored, so it need not be exact."""
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges"))
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, {t: i for i, t in enumerate(tokens)}


def token_lists(path):
    """(kind, ids) per prompt. A chat prompt is the model's own format with as much of the text as its length leaves."""
    tokenizer, vocabulary = load_tokenizer(path)
    start, end = vocabulary["<|im_start|>"], vocabulary["<|im_end|>"]
    rng = random.Random(SEED)

    def ids(text):
        return tokenizer.encode(text).ids

    system = [start, *ids("system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"), end,
              *ids("\n")]
    for i, length in enumerate(LENGTHS):
        text = " ".join([QUESTIONS[i % len(QUESTIONS)]] * (length > 40) + rng.choices(SENTENCES, k=4 + length // 10))
        if i % 5 in (1, 3) and length > 60:
            head, tail = [*system, start, *ids("user\n")], [end, *ids("\n"), start, *ids("assistant\n")]
            yield "chat", [*head, *ids(text)[:length - len(head) - len(tail)], *tail]
        else:
            yield "raw", ids(text)[:length]
