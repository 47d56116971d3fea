#!/usr/bin/env python3
"""Rows of the bug log through the whole program: ROTE models, whose weights alone fix the answer (rote.py), over HTTP. Each
test's name begins with its rows. docs/bug_log.md lists all rows."""
import concurrent.futures
import contextlib
import json
import pathlib
import subprocess
import tempfile

import rote
import serve

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
EMOJI = "😀"
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
NEWLINE = 10  # What the generation prompt of CHATML ends with.


@contextlib.contextmanager
def serving(model, *flags):
    with tempfile.TemporaryDirectory(prefix="monograph-rote-") as folder:
        with serve.Server(model.write(pathlib.Path(folder) / "rote"), flags=["--max-seq-len", 512, *flags]) as server:
            yield server
            assert server.process.poll() is None, server.output()


def answers(server, prompt, **body):
    """The same question as a completion and, if `prompt` ends as the chat's does, as a chat; streamed and whole. Checks that
    all agree; returns the whole completion and its chunks."""
    body = {"max_tokens": 30, "temperature": 0, "return_token_ids": True, **body}
    whole, _ = server.complete(prompt=prompt, **body)
    chunks = server.stream(prompt=prompt, stream_options={"include_usage": True}, **body)
    check_stream(whole, chunks, lambda choice: choice["text"])
    if prompt[-1] == NEWLINE:
        body = {"model": server.model(), "messages": [{"role": "user", "content": "x"}], **body}
        status, _, chat = server.post(CHAT, body)
        assert status == 200, chat
        check_stream(chat, server.stream(CHAT, stream_options={"include_usage": True}, **body),
                     lambda choice: choice["delta"].get("content") or "", lambda choice: choice["message"]["content"])
        assert [c["message"]["content"] for c in chat["choices"]] == [c["text"] for c in whole["choices"]], (chat, whole)
        assert chat["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    return whole, chunks


def check_stream(whole, chunks, delta, text=None):
    text = text or delta
    for choice in whole["choices"]:
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(map(delta, mine)) == text(choice), (mine, choice)
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == [choice["finish_reason"]], mine
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"], chunks[-1]


def one(answer):
    (choice,) = answer["choices"]
    return choice


def check_refused(server, path, body, *words):
    status, _, data = server.post_raw(path, json.dumps({"model": server.model(), **body}))
    error = json.loads(data.decode("utf-8"))["error"]
    assert status == 400 and error["type"] == "invalid_request_error", (status, error)
    for word in words:
        assert word in error["message"] + str(error["param"]), f"{word}: {error}"


# ---- Characters over several tokens

def emoji_model():
    model = rote.Rote()
    model.chain(NEWLINE, *EMOJI.encode(), model.id("<|im_end|>"))
    model.config = {"eos_token_id": model.id("<|im_end|>")}
    model.template = CHATML
    return model


def test_TK01_a_character_over_four_tokens_is_one_delta():
    with serving(emoji_model()) as server:
        whole, chunks = answers(server, [NEWLINE])
        assert one(whole)["text"] == EMOJI and one(whole)["finish_reason"] == "stop"
        texts = [c["text"] for chunk in chunks for c in chunk["choices"] if c["text"]]
        assert texts == [EMOJI], chunks


def test_TK03_a_cut_inside_a_character_is_valid_text():
    with serving(emoji_model()) as server:
        for n in (1, 2, 3):
            whole, _ = answers(server, [NEWLINE], max_tokens=n)
            assert one(whole)["finish_reason"] == "length" and one(whole)["text"] == "\ufffd", whole
        assert one(answers(server, [NEWLINE])[0])["text"] == EMOJI


def test_TK18_one_token_is_the_first_of_the_answer():
    model = rote.Rote(pieces=["one", "two"])
    model.chain(NEWLINE, *map(model.id, model.pieces))
    model.template = CHATML
    with serving(model) as server:
        whole, _ = answers(server, [NEWLINE], max_tokens=1)
        assert one(whole)["text"] == "one" and whole["usage"]["completion_tokens"] == 1


def test_TK19_bytes_of_logprobs_join_to_the_text():
    with serving(emoji_model()) as server:
        body = {"model": server.model(), "messages": [{"role": "user", "content": "x"}], "temperature": 0,
                "logprobs": True, "top_logprobs": 3}
        status, _, chat = server.post(CHAT, body)
        assert status == 200, chat
        entries = one(chat)["logprobs"]["content"]
        streamed = [entry for chunk in server.stream(CHAT, **body) for c in chunk["choices"] if c.get("logprobs")
                    for entry in c["logprobs"]["content"]]
        for found in (entries, streamed):
            joined = bytes(b for entry in found for b in entry["bytes"] or [])
            assert joined.removesuffix(b"<|im_end|>") == EMOJI.encode(), found
        whole, _ = server.complete(prompt=[NEWLINE], temperature=0, logprobs=3)
        # The end token is counted, and is no part of the text.
        assert len(one(whole)["logprobs"]["tokens"]) == len(EMOJI.encode()) == whole["usage"]["completion_tokens"] - 1, whole


def test_TK15_padding_ids_of_the_head_are_never_sampled():
    model = rote.Rote(pieces=["one", "two"])
    model.chain(NEWLINE, *map(model.id, model.pieces), 255)
    model.logit_width = 320
    model.stronger = {token: 310 for token in (NEWLINE, *map(model.id, model.pieces))}
    with serving(model) as server:
        for settings in ({"temperature": 0}, *({"temperature": 1, "seed": seed} for seed in range(20))):
            whole, _ = server.complete(prompt=[NEWLINE], max_tokens=2, logprobs=2, **settings)
            assert one(whole)["text"] == "onetwo", (settings, whole)
        check_refused(server, COMPLETIONS, {"prompt": [320]}, "prompt")


# ---- Stops

def pieces_model(*pieces, tail=()):
    """NEWLINE is followed by the pieces, in order, and those by `tail`, ids of special tokens."""
    model = rote.Rote(pieces)
    model.template = CHATML
    model.chain(NEWLINE, *map(model.id, pieces), *map(model.id, tail))
    return model


def test_TK20_stop_strings_are_taken_as_given():
    with serving(pieces_model("a\n", "終わり", "\\n", "é", "b")) as server:
        for stop, text in (("終わり", "a\n"), ("\\n", "a\n終わり"), ("é", "a\n終わり\\n")):
            whole, _ = answers(server, [NEWLINE], stop=[stop])
            assert one(whole)["text"] == text and one(whole)["finish_reason"] == "stop", whole


def test_ST01_nothing_of_a_stop_over_tokens_is_sent():
    with serving(pieces_model("ABC", "DEF", "G", "HI", "J", "more")) as server:
        whole, chunks = answers(server, [NEWLINE], stop=["DEFGHIJ"])
        assert one(whole)["text"] == "ABC" and one(whole)["finish_reason"] == "stop", whole
        assert all("D" not in c["text"] for chunk in chunks for c in chunk["choices"]), chunks


def test_ST03_one_stop_a_prefix_of_another():
    with serving(pieces_model("text ", ">>>", " UPD", "\n.", "more")) as server:
        for stop in ([">>> UPD", ">>> UPD\n"], [">>> UPD\n", ">>> UPD"]):
            assert one(answers(server, [NEWLINE], stop=stop)[0])["text"] == "text ", stop


def many_ends():
    """End ids from three files: 97 of config.json, [97, 106] of generation_config.json, 113 of the tokenizer."""
    model = rote.Rote(["one", "two"])
    model.template = CHATML
    model.config = {"eos_token_id": 97}
    model.generation = {"eos_token_id": [97, 106]}
    model.tokenizer_config = {"eos_token": "q"}
    return model


def test_ST05_end_ids_of_every_source_count():
    model = many_ends()
    starts = {65: 97, 66: 106, 67: 113}
    for start, end in starts.items():
        model.next[start] = end
    with serving(model) as server:
        for start, end in starts.items():
            whole, _ = answers(server, [start])
            assert one(whole)["text"] == "" and one(whole)["finish_reason"] == "stop", (end, whole)
            assert whole["usage"]["completion_tokens"] == 1, whole


def test_ST06_ignore_eos_ignores_every_end_id():
    model = many_ends()
    model.chain(NEWLINE, 106, 97, 113, 106)
    with serving(model) as server:
        whole, _ = answers(server, [NEWLINE], ignore_eos=True, max_tokens=50)
        assert whole["usage"]["completion_tokens"] == 50 and one(whole)["finish_reason"] == "length", whole


def test_ST11_stops_match_on_text_not_on_ids():
    with serving(pieces_model("Hello", " wor", "ld", "!", "<|im", "_end|>", " world")) as server:
        assert one(answers(server, [NEWLINE], stop=["world"])[0])["text"] == "Hello "
        assert one(answers(server, [NEWLINE], stop=["<|im_end|>"])[0])["text"] == "Hello world!"


def test_ST12_an_end_token_first_is_an_empty_answer():
    model = rote.Rote()
    model.template = CHATML
    model.config = {"eos_token_id": model.id("<|im_end|>")}
    model.chain(NEWLINE, model.id("<|im_end|>"))
    with serving(model) as server:
        for n in (1, 2):
            whole, _ = answers(server, [NEWLINE], n=n)
            assert [c["text"] for c in whole["choices"]] == [""] * n, whole
            assert [c["finish_reason"] for c in whole["choices"]] == ["stop"] * n, whole
            assert whole["usage"]["completion_tokens"] == n, whole


def test_ST13_a_stop_that_is_a_special_token_comes_once():
    model = pieces_model("bye", tail=["<|im_end|>", "<|endoftext|>"])
    with serving(model) as server:
        body = {"skip_special_tokens": False, "stop": ["<|im_end|>"]}
        assert one(answers(server, [NEWLINE], **body)[0])["text"] == "bye"
        # Here the token ends the answer by itself, or, with ignore_eos, its text does.
        assert one(answers(server, [NEWLINE], include_stop_str_in_output=True, **body)[0])["text"] == "bye"
        shown, _ = answers(server, [NEWLINE], include_stop_str_in_output=True, ignore_eos=True, **body)
        assert one(shown)["text"] == "bye<|im_end|>" and one(shown)["finish_reason"] == "stop", shown


# ---- Sampling

def test_SA15_nan_ends_its_own_request_and_is_counted():
    model = rote.Rote(["one", "two", "bad"])
    model.chain(65, *map(model.id, ("one", "bad", "two")))
    model.chain(66, model.id("two"), 66)
    model.broken = {model.id("bad")}
    with serving(model) as server:
        good = {"prompt": [66], "temperature": 0, "max_tokens": 200, "ignore_eos": True}
        oracle = one(server.complete(**good)[0])["text"]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            neighbours = [pool.submit(server.complete, **good) for _ in range(2)]
            status, _, answer = server.post(COMPLETIONS, {"model": server.model(), "prompt": [65], "temperature": 0,
                                                          "max_tokens": 200, "ignore_eos": True})
            assert status == 500 and "logits" in answer["error"]["message"], (status, answer)
            for neighbour in neighbours:
                assert one(neighbour.result()[0])["text"] == oracle
        assert server.metric_sum("monograph_bad_logits_total") == 1
        assert one(server.complete(**good)[0])["text"] == oracle
        # Its prompt is fine; only the step that reads the broken token fails.
        assert one(server.complete(prompt=[65], temperature=0, max_tokens=2)[0])["text"] == "onebad"


def test_SA13_there_is_no_penalty_window_to_get_wrong():
    with serving(pieces_model("one", "two")) as server:
        for window in (0, -1, 10**6):
            whole, _ = server.complete(prompt=[NEWLINE], temperature=0, max_tokens=4, repetition_penalty=1.3,
                                       repeat_last_n=window)
            assert whole["usage"]["completion_tokens"] == 4
        assert "repeat_last_n" in server.output(), "nothing says that the field is ignored"


# ---- Prefixes

def test_KV03_the_same_body_twice_at_block_edges():
    model = rote.Rote(["one", "two"])
    model.chain(NEWLINE, model.id("one"), model.id("two"), NEWLINE)
    block = 64 if "cuda" in serve.FLAGS else 16  # the size that GPU kernels need
    with serving(model, "--block-size", block) as server:
        for length in (1, block - 1, block, block + 1, 4 * block):
            body = {"prompt": [100 + length % 128] * (length - 1) + [NEWLINE], "temperature": 0, "max_tokens": 5}
            first, again = server.complete(**body)[0], server.complete(**body)[0]
            assert one(first)["text"] == one(again)["text"] == "onetwo\nonetwo", (length, first, again)
            assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == (length - 1) // block * block, again["usage"]


# ---- Chat templates

ALTERNATING = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
               "{{ raise_exception('Only the first message may be a system message') }}{% endif %}"
               "{% if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role %}"
               "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
               "[{{ m.role }}]{% if m.tool_calls %}(call){% endif %}{% if m.content is string %}{{ m.content }}{% endif %}"
               "{% endfor %}{{ '\n' }}")
USER, ASSISTANT = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


def alternating_model():
    model = rote.Rote(["fine"], specials=["<s>", "</s>"])
    model.chain(NEWLINE, model.id("fine"), model.id("</s>"))
    model.config = {"bos_token_id": model.id("<s>"), "eos_token_id": model.id("</s>")}
    model.tokenizer_config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}
    model.template = ALTERNATING
    return model


def chat(server, *messages):
    status, _, answer = server.post(CHAT, {"model": server.model(), "messages": list(messages), "temperature": 0,
                                           "return_token_ids": True})
    assert status == 200, answer
    assert one(answer)["message"]["content"] == "fine", answer
    return answer


def rendered(server, *messages):
    status, _, answer = server.post("/apply-template", {"messages": list(messages)})
    assert status == 200, answer
    return answer["prompt"]


def test_CT01_CT07_a_rule_of_the_template_is_a_400_and_spoils_nothing():
    with serving(alternating_model()) as server:
        bad = {"Conversation roles must alternate": [[USER, USER], [USER, ASSISTANT, ASSISTANT]],
               "Only the first message may be a system message": [[USER, {"role": "system", "content": "s"}]]}
        for rule, conversations in bad.items():
            for messages in conversations:
                check_refused(server, CHAT, {"messages": messages}, rule, "messages")
                chat(server, USER)


def test_CT03_CT06_null_content_and_empty_tool_calls():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with serving(alternating_model()) as server:
        for content in ({"content": None}, {}):
            messages = [USER, {"role": "assistant", **content, "tool_calls": [call]}, USER]
            assert rendered(server, *messages) == "<s>[user]a[assistant](call)[user]a\n"
            chat(server, *messages)
        messages = [USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER]
        assert rendered(server, *messages) == "<s>[user]a[assistant]x[user]a\n"
        chat(server, *messages)


def test_CT08_content_of_other_kinds_is_joined_or_refused():
    with serving(alternating_model()) as server:
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        assert rendered(server, {"role": "user", "content": parts}) == "<s>[user]one\ntwo\n"
        for content in ([{"type": "audio", "audio": "x"}], [{"type": "text", "text": None}], [{"text": "x"}], None, 5,
                        [5]):
            check_refused(server, CHAT, {"messages": [{"role": "user", "content": content}]}, "messages[0].content")
            chat(server, USER)


def test_CT05_a_bad_template_file_is_one_line_and_an_exit_code():
    with tempfile.TemporaryDirectory(prefix="monograph-rote-") as folder:
        folder = pathlib.Path(folder)
        model = alternating_model().write(folder / "rote")
        (folder / "broken.jinja").write_text("ok\n{% for x in y %}")
        (folder / "empty.jinja").write_text("")
        for name, words in (("broken", ["line "]), ("missing", ["missing.jinja"]), ("empty", ["empty"])):
            for command in ("generate", "serve"):
                run = subprocess.run([serve.BINARY, command, "--model", model, "--chat-template", folder / f"{name}.jinja",
                                      *(["--prompt", "x"] if command == "generate" else ["--port", str(serve.free_port())])],
                                     capture_output=True, text=True, timeout=60, check=False)
                lines = [line for line in run.stderr.splitlines() if "template" in line]
                assert run.returncode == 1 and len(lines) == 1, (name, command, run)
                for word in words:
                    assert word in lines[0], (name, command, lines)


def test_TK13_exactly_one_start_token():
    model = alternating_model()
    start = model.id("<s>")
    with serving(model) as server:
        answer = chat(server, USER)
        assert answer["prompt_token_ids"].count(start) == 1 and answer["prompt_token_ids"][0] == start, answer
        assert answer["prompt_token_ids"] == server.post("/tokenize", {"messages": [USER]})[2]["tokens"]
        plain = server.complete(prompt="a\n", temperature=0, return_token_ids=True)[0]
        ids = plain.get("prompt_token_ids") or one(plain)["prompt_token_ids"]
        assert ids == [start, ord("a"), NEWLINE], plain
    with tempfile.TemporaryDirectory(prefix="monograph-rote-") as folder:
        folder = model.write(pathlib.Path(folder) / "rote")
        for flags, n_tokens in (([], 1 + len("[user]a\n")), (["--raw"], 1 + len("a"))):
            run = subprocess.run([serve.BINARY, "generate", "--model", folder, "--prompt", "a", "--temperature", "0",
                                  "--max-tokens", "3", *flags], capture_output=True, text=True, timeout=60, check=True)
            assert f"{n_tokens} prompt tokens" in run.stdout + run.stderr, (flags, run)


if __name__ == "__main__":
    serve.main([test for name, test in list(globals().items()) if name.startswith("test_")])
