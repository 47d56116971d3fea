#!/usr/bin/env python3
"""The real `openai` SDK against a running server: what most programs embed must work unchanged."""
import asyncio

import openai

import serve

MESSAGES = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": "Name a colour."}]


def client_of(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0, timeout=300)


def model_of(server):
    return client_of(server).models.list().data[0].id


def test_models(server):
    client = client_of(server)
    model = client.models.list().data[0]
    assert model.object == "model" and model.owned_by == "monograph"
    assert client.models.retrieve(model.id).id == model.id


def test_chat(server):
    answer = client_of(server).chat.completions.create(
        model=model_of(server), messages=MESSAGES, max_completion_tokens=12, temperature=0)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.model_extra["monograph"]["prefill_cuda_graph_status"] == "replayed"
    assert answer.usage.model_extra["prefill_cuda_graph_status"] == "replayed"


def test_chat_stream(server):
    arguments = dict(model=model_of(server), messages=MESSAGES, max_tokens=12, temperature=0)
    whole = client_of(server).chat.completions.create(**arguments)
    text, reasons, usage, n_roles = "", [], None, 0
    stream = client_of(server).chat.completions.create(
        **arguments, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            n_roles += choice.delta.role == "assistant"
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text == whole.choices[0].message.content
    assert reasons == [whole.choices[0].finish_reason]
    assert n_roles == 1
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens


def test_stream_helper(server):
    """The SDK's own accumulator is strict about chunk shapes."""
    with client_of(server).chat.completions.stream(model=model_of(server), messages=MESSAGES, max_tokens=200,
                                                   temperature=0, stop=["."]) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "".join(deltas) != ""
    assert final.choices[0].finish_reason == "stop"


def test_raw_headers(server):
    raw = client_of(server).chat.completions.with_raw_response.create(
        model=model_of(server), messages=MESSAGES, max_tokens=2)
    assert raw.headers["x-monograph-prefill-status"] == "replayed"
    assert raw.parse().id == raw.headers["x-request-id"]


def test_completions(server):
    client, model = client_of(server), model_of(server)
    one = client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, temperature=0)
    assert one.object == "text_completion" and one.choices[0].text
    listed = client.completions.create(model=model, prompt=["Once upon a time", "The sky is"], max_tokens=8,
                                       temperature=0, n=2)
    assert [c.index for c in listed.choices] == [0, 1, 2, 3]
    assert listed.choices[0].text == listed.choices[1].text == one.choices[0].text
    ids = client.completions.create(model=model, prompt=[100, 200, 300], max_tokens=1, temperature=0)
    assert ids.usage.prompt_tokens == 3 and ids.usage.completion_tokens == 1
    text = "".join(c.choices[0].text for c in client.completions.create(
        model=model, prompt="Once upon a time", max_tokens=8, temperature=0, stream=True))
    assert text == one.choices[0].text


def test_logprobs(server):
    client, model = client_of(server), model_of(server)
    chat = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=5, temperature=0, logprobs=True,
                                          top_logprobs=3)
    content = chat.choices[0].logprobs.content
    assert content and all(len(token.top_logprobs) == 3 for token in content)
    assert all(token.top_logprobs[0].token == token.token for token in content)
    assert all(token.logprob <= 0 for token in content)
    assert bytes(b for token in content for b in token.bytes).decode() == chat.choices[0].message.content
    plain = client.completions.create(model=model, prompt="The sky is", max_tokens=4, temperature=0, logprobs=2)
    logprobs = plain.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == 4
    assert logprobs.text_offset[0] == 0 and "".join(logprobs.tokens) == plain.choices[0].text


def test_seed_and_extras(server):
    def answer(seed):
        return client_of(server).chat.completions.create(
            model=model_of(server), messages=MESSAGES, max_tokens=16, temperature=1.5, seed=seed,
            extra_body={"top_k": 50, "min_p": 0.01, "repetition_penalty": 1.1, "aux_info": True})
    first, again, other = answer(1), answer(1), answer(2)
    assert first.choices[0].message.content == again.choices[0].message.content
    assert first.choices[0].message.content != other.choices[0].message.content
    assert first.model_extra["monograph"]["n_prefill_steps"] >= 1


def expect(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def test_errors(server):
    client, model = client_of(server), model_of(server)
    create = client.chat.completions.create
    error = expect(openai.BadRequestError, lambda: create(model=model, messages=MESSAGES, temperature=5))
    assert error.param == "temperature" and error.type == "invalid_request_error"
    error = expect(openai.NotFoundError, lambda: create(model="gpt-4", messages=MESSAGES))
    assert error.code == "model_not_found"
    error = expect(openai.BadRequestError, lambda: create(model=model, messages=MESSAGES, response_format={"type": "json_object"}))
    assert error.param == "response_format"
    error = expect(openai.BadRequestError, lambda: create(model=model, messages=[{"role": "user", "content": "word " * 50_000}]))
    assert error.code == "context_length_exceeded" and error.body["n_prompt_tokens"] > error.body["n_ctx"]
    expect(openai.BadRequestError, lambda: create(model=model, messages=[]))


def test_many_async_clients(server):
    async def all_of_them():
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0,
                                    timeout=300)

        async def one(i):
            stream = await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": f"Count from {i}."}], max_tokens=8, temperature=0,
                stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        return await asyncio.gather(*[one(i % 4) for i in range(16)])

    model = model_of(server)
    texts = asyncio.run(all_of_them())
    # Equal prompts give equal answers, whoever runs beside them.
    assert all(texts[i] == texts[i % 4] for i in range(16)) and all(texts)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    with serve.Server(serve.arguments(__doc__)) as running:
        serve.run(TESTS, running)
