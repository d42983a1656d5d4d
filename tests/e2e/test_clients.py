# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The clients that people use: OpenAI's Python SDK and curl."""
import json
import subprocess

import openai
import pytest

from harness import SLOW, chat_body, pool
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, chunk, json_answer


def sdk(r, **more):
    return openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % r.port, api_key="none", max_retries=0,
                         timeout=20 * SLOW, **more)


@pytest.fixture
def fleet(router, sim):
    s = sim(nodes=2, model="llama", args=["--time-scale", "10"])
    return router([pool(s.urls(), models=["llama"])])


def test_models(fleet):
    assert [m.id for m in sdk(fleet).models.list()] == ["llama"]


def test_chat(fleet):
    raw = sdk(fleet).chat.completions.with_raw_response.create(
        model="llama", max_tokens=5, messages=[{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}])
    answer = raw.parse()
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 5
    assert raw.headers["x-kvsteer-backend"].startswith("127.0.0.1:")


def test_chat_stream(fleet):
    chunks = list(sdk(fleet).chat.completions.create(
        model="llama", max_tokens=6, stream=True, stream_options={"include_usage": True},
        messages=[{"role": "user", "content": "hello"}]))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert [c.usage.completion_tokens for c in chunks if c.usage][-1] == 6


def test_completions(fleet):
    answer = sdk(fleet).completions.create(model="llama", prompt="once upon", max_tokens=3)
    assert answer.choices[0].text
    assert len(list(sdk(fleet).completions.create(model="llama", prompt="once upon", max_tokens=3, stream=True))) >= 3


def test_stream_abandoned(fleet):
    """Leaving the loop closes the connection: the slot is free again."""
    with sdk(fleet).chat.completions.create(model="llama", max_tokens=5000, stream=True,
                                            messages=[{"role": "user", "content": "hello"}]) as stream:
        for _ in stream:
            break
    fleet.wait_in_flight(0, 2)


def test_tools(router, backend):
    """Tools go in and tool calls come out, unchanged."""
    tools = [{"type": "function", "function": {"name": "weather", "description": "d",
                                               "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"K\u00f6ln\"}"}}
    body = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]})

    def play(p, q):
        if json.loads(q.body).get("stream"):
            delta = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [
                {"index": 0, "finish_reason": None, "delta": {"tool_calls": [dict(call, index=0)]}}]}
            p.send(SSE_HEAD + chunk(b"data: " + json.dumps(delta).encode() + b"\n\n") + chunk(SSE_DONE) + LAST_CHUNK)
        else:
            p.send(json_answer(body.encode()))

    b = backend(play)
    client = sdk(router([b.url]))
    ask = dict(model="m", tools=tools, tool_choice="auto", messages=[{"role": "user", "content": "weather?"}])
    answer = client.chat.completions.create(**ask)
    got = answer.choices[0].message.tool_calls[0]
    assert (got.function.name, json.loads(got.function.arguments)) == ("weather", {"city": "K\u00f6ln"})
    assert json.loads(b.requests[0].body)["tools"] == tools
    events = list(client.chat.completions.create(stream=True, **ask))
    assert events[0].choices[0].delta.tool_calls[0].function.name == "weather"


def test_errors_map(router, backend):
    """Our errors become the SDK's exceptions, with code and message."""
    b = backend(lambda p, q: p.send(json_answer(b'{"error":{"message":"too long","type":"BadRequestError","param":"input",'
                                                b'"code":400}}', "400 Bad Request")))
    r = router([pool([b.url], models=["m"])])
    client = sdk(r)
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="none", messages=[{"role": "user", "content": "x"}])
    assert e.value.code == "model_not_found" and "none" in e.value.message
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert "too long" in e.value.message
    with pytest.raises(openai.PermissionDeniedError) as e:
        client.fine_tuning.jobs.list()
    assert e.value.code == "path_not_allowed"


def test_rate_limit_error(router, backend):
    """A full queue is the SDK's RateLimitError, with Retry-After."""
    b = backend()
    r = router([pool([b.url], concurrency_threshold=1, queue={"max_requests": 0})])
    b.on_request = lambda p, q: p.wait_closed(20)
    from peer import Client
    holder = Client(r.port)
    holder.post(chat_body())
    b.wait_request()
    with pytest.raises(openai.RateLimitError) as e:
        sdk(r).chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert e.value.code == "queue_full" and int(e.value.response.headers["retry-after"]) >= 1
    holder.close()
    r.wait_in_flight(0)


def test_sdk_retries_a_503(router, backend):
    """The SDK's own retry works through the router."""
    answers = iter([("503 Service Unavailable", b'{"error":{"message":"busy","code":503}}'), ("200 OK", None)])

    def play(p, q):
        status, body = next(answers)
        p.send(json_answer(body or b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[]}', status))

    r = router([backend(play).url])
    client = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % r.port, api_key="none", max_retries=4, timeout=20 * SLOW)
    assert client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}]).id == "x"


def curl(*args, data=None):
    p = subprocess.run(["curl", "-sS", "--noproxy", "*", "--max-time", str(20 * SLOW), *args], input=data,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def test_curl(fleet):
    """A plain POST, a stream, a HEAD-like look at the answer's head, HTTP/1.0."""
    url = "http://127.0.0.1:%d/v1/chat/completions" % fleet.port
    post = ["-H", "Content-Type: application/json", "--data-binary", "@-"]
    assert json.loads(curl(*post, url, data=chat_body(model="llama")))["choices"]
    out = curl("-N", *post, url, data=chat_body(model="llama", stream=True))
    assert out.startswith(b"data: ") and out.endswith(SSE_DONE)
    out = curl("-0", *post, url, data=chat_body(model="llama", stream=True))
    assert out.endswith(SSE_DONE)
    out = curl("-i", *post, url, data=chat_body(model="none"))
    assert out.startswith(b"HTTP/1.1 404 ")


def test_curl_expect_and_chunked_upload(router, backend):
    """curl asks before a big body and waits for 100 Continue; from a pipe it sends chunks."""
    b = backend()
    url = "http://127.0.0.1:%d/v1/chat/completions" % router([b.url]).port
    big = chat_body("x" * 3000000)
    curl("-H", "Expect: 100-continue", "-H", "Content-Type: application/json", "--data-binary", "@-", url, data=big)
    curl("-X", "POST", "-H", "Content-Type: application/json", "-T", "-", url, data=big)
    assert [q.body for q in b.requests] == [big, big]
