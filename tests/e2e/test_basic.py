# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One request at a time, nothing goes wrong: what reaches the backend, what comes back."""
import json

import pytest

from harness import chat_body, fetch, pool
from peer import Client, head, json_answer, sse_answer


def test_json_answer_is_passed_on(router, backend):
    """An answer that does not stream: status, body and end-to-end fields unchanged, ours added."""
    body = json.dumps({"id": "abc", "choices": [{"message": {"content": "h\u00e9llo"}}]}).encode() + b"\n "
    b = backend(lambda p, r: p.send(head("200 OK", Content_Type="application/json", X_Engine="v", Content_Length=len(body),
                                         Keep_Alive="timeout=5", Connection="keep-alive, x-hop", X_Hop="1") + body))
    r = router([b.url])
    c = Client(r.port)
    c.post(chat_body())
    got = c.response()
    assert (got.status, got.body, got.cut) == (200, body, None)
    assert got.get("content-type") == "application/json" and got.get("x-engine") == "v"
    assert got.get("x-hop") is None and got.get("keep-alive") is None
    assert got.get("x-kvsteer-backend") == b.name
    assert "policy=cost" in got.get("x-kvsteer-reason")
    assert got.get("x-request-id")


def test_stream_is_passed_on(router, backend):
    """A stream arrives byte for byte, and the connection serves the next request."""
    b = backend(lambda p, r: p.send(sse_answer(["one", "two", "three"])))
    c = Client(router([b.url]).port)
    for _ in range(3):
        c.post(chat_body(stream=True))
        got = c.response()
        assert got.status == 200 and got.cut is None
        assert got.get("content-type").startswith("text/event-stream")
        assert got.body.count(b"data: ") == 4 and got.body.endswith(b"data: [DONE]\n\n")
        assert b"".join(json.loads(e[6:])["choices"][0]["delta"]["content"].encode()
                        for e in got.body.split(b"\n\n")[:3]) == b"onetwothree"


@pytest.mark.parametrize("path,body", [
    ("/v1/chat/completions", b'{ "model" : "m",\n"messages":[{"role":"user","content":"a"}],"return_token_ids":true,'
                             b'"chat_template_kwargs":{"x":[1.0e5,-0,null]},"n":1,"n":2 }\n'),
    ("/v1/chat/completions", '{"messages":[{"role":"user","content":"h\u00e9 \U0001f600 \\u00e9\\ud83d"}],"model":"m"}'.encode()),
    ("/v1/completions", b'{"model":"m","prompt":["a","b"],"unknown":{"deep":[[[[]]]]}}'),
    ("/v1/completions", b'{"model":"m","prompt":[1,2,3,4]}'),
    ("/v1/responses", b'{"model":"m","input":"hello"}'),
    ("/v1/messages", b'{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"x"}]}'),
    ("/v1/embeddings", b'{"model":"m","input":["a"]}'),
    ("/invocations", b'{"model":"m","messages":[{"role":"user","content":"x"}]}'),
])
def test_body_reaches_the_backend_byte_for_byte(router, backend, path, body):
    """Never re-serialised: unknown fields, duplicate keys, odd numbers, escapes and blanks stay."""
    b = backend()
    c = Client(router([b.url]).port)
    c.post(body, path)
    assert c.response().status == 200
    seen = b.wait_request()
    assert (seen.method, seen.target, seen.version) == ("POST", path, "HTTP/1.1")
    assert seen.body == body


def test_request_fields(router, backend):
    """To the backend: end-to-end fields as sent, ours added, one Host, one framing, nothing hop-by-hop, nothing forged."""
    b = backend()
    c = Client(router([pool([b.url], models=["base"], adapters=["m"])]).port)
    c.post(chat_body(), fields=[
        "X-Custom: v", "Accept: text/event-stream", "X-Request-Id: id-1.2", "X-Forwarded-For: 6.6.6.6",
        "Connection: keep-alive, x-drop", "X-Drop: 1", "Keep-Alive: timeout=9", "TE: trailers", "Upgrade: h2c",
        "X-Gateway-Model-Name: forged", "User-Agent: ua/1"])
    answer = c.response()
    seen = b.wait_request()
    assert seen.get("x-custom") == "v" and seen.get("accept") == "text/event-stream" and seen.get("user-agent") == "ua/1"
    assert len(seen.all("host")) == 1
    assert len(seen.all("content-length")) + len(seen.all("transfer-encoding")) == 1
    for gone in ("x-drop", "keep-alive", "te", "upgrade", "proxy-connection"):
        assert seen.all(gone) == [], gone
    assert seen.all("connection") in ([], ["keep-alive"])
    assert seen.get("x-forwarded-for") == "127.0.0.1"
    assert seen.get("x-request-id") == "id-1.2" == answer.get("x-request-id")
    assert seen.get("x-gateway-model-name") == "m"
    assert seen.get("x-gateway-base-model-name") == "base"


def test_malformed_request_id_is_replaced(router, backend):
    """An X-Request-Id that could break a log line or a header is not passed on."""
    b = backend()
    c = Client(router([b.url]).port)
    c.post(chat_body(), fields=["X-Request-Id: bad id=\t\"x\""])
    answer = c.response()
    made = b.wait_request().get("x-request-id")
    assert made and " " not in made and '"' not in made and made == answer.get("x-request-id")


def test_trusted_proxy_is_appended_to(router, backend):
    """X-Forwarded-For of a trusted proxy is kept and continued."""
    b = backend()
    c = Client(router([b.url], trusted_proxies=["127.0.0.0/8"]).port)
    c.post(chat_body(), fields=["X-Forwarded-For: 10.1.2.3"])
    c.response()
    assert b.wait_request().get("x-forwarded-for").replace(" ", "") == "10.1.2.3,127.0.0.1"


def test_models_of_all_pools(router, backend):
    """GET /v1/models: models, adapters and aliases of every pool in OpenAI's list shape."""
    a, b = backend(), backend()
    r = router([pool([a.url], name="a", models=["ma"], adapters=["la"], aliases={"x": "ma"}),
                pool([b.url], name="b", models=["mb"])])
    status, body, fields = fetch(r.port, "/v1/models")
    listing = json.loads(body)
    assert status == 200 and fields["content-type"].startswith("application/json")
    assert listing["object"] == "list"
    ids = [m["id"] for m in listing["data"]]
    assert sorted(ids) == ["la", "ma", "mb", "x"]
    assert all(m["object"] == "model" for m in listing["data"])


def test_model_chooses_the_pool(router, backend):
    """By model, adapter and alias, wherever `model` stands in the body."""
    a, b = backend(), backend()
    r = router([pool([a.url], name="a", models=["ma"], adapters=["la"]),
                pool([b.url], name="b", models=["mb"], aliases={"alias": "mb"}, default=True)])
    c = Client(r.port)
    for name, want in (("ma", a), ("la", a), ("mb", b), ("alias", b)):
        for body in ('{"model":"%s","messages":[{"role":"user","content":"x"}]}', '{"messages":[{"role":"user","content":"{\\"model\\":1}"}],"model":"%s"}'):
            c.post((body % name).encode())
            assert c.response().get("x-kvsteer-backend") == want.name, name
    c.post(b'{"messages":[{"role":"user","content":"x"}]}')
    assert c.response().get("x-kvsteer-backend") == b.name


def error_of(response):
    error = json.loads(response.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert isinstance(error["message"], str) and error["message"]
    return error


def test_unknown_model(router, backend):
    """404 in OpenAI's shape; the backend sees nothing."""
    b = backend()
    c = Client(router([pool([b.url], models=["known"])]).port)
    c.post(chat_body(model="other"))
    got = c.response()
    assert got.status == 404 and error_of(got)["code"] == "model_not_found"
    assert b.bytes_in == 0


@pytest.mark.parametrize("path", ["/metrics", "/reset_prefix_cache", "/admin", "/v1/load_lora_adapter", "/v1/chat/completions/x",
                                  "/v1/../metrics", "/v1/%2e%2e/metrics", "//v1/chat/completions", "/sleep"])
def test_path_not_allowed(router, backend, path):
    """Only inference paths reach an engine: its admin endpoints do not, by any spelling."""
    b = backend()
    c = Client(router([b.url]).port)
    c.post(chat_body(), path)
    got = c.response()
    assert got.status == 403 and error_of(got)["code"] == "path_not_allowed"
    assert b.bytes_in == 0


def test_allowed_extra_path(router, backend):
    """allow_paths adds to them."""
    b = backend()
    c = Client(router([b.url], allow_paths=["/v1/special"]).port)
    c.post(chat_body(), "/v1/special")
    assert c.response().status == 200
    assert b.wait_request().target == "/v1/special"


def test_method_not_allowed(router, backend):
    """GET on an inference path is answered here."""
    b = backend()
    c = Client(router([b.url]).port)
    c.send(b"GET /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n")
    got = c.response()
    assert got.status == 405 and error_of(got)["code"] == "method_not_allowed"
    assert b.bytes_in == 0


def test_error_on_an_anthropic_path(router, backend):
    """On /v1/messages errors have Anthropic's shape."""
    b = backend()
    c = Client(router([pool([b.url], models=["known"])]).port)
    c.post(b'{"model":"other","max_tokens":1,"messages":[{"role":"user","content":"x"}]}', "/v1/messages")
    got = c.response()
    answer = json.loads(got.body)
    assert got.status == 404 and answer["type"] == "error" and answer["error"]["message"] and answer["error"]["type"]


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable Entity",
                                    "429 Too Many Requests"])
def test_engine_errors_are_the_clients(router, backend, status):
    """What the engine says to a faulty request is passed on as it is, and held against nobody."""
    body = b'{"error":{"message":"no","type":"BadRequestError","param":null,"code":1}}'
    b = backend(lambda p, r: p.send(json_answer(body, status)))
    r = router([b.url])
    c = Client(r.port)
    for _ in range(8):
        c.post(chat_body())
        got = c.response()
        assert "%d" % got.status == status[:3] and got.body == body
    assert len(b.requests) == 8


def test_response_headers_can_be_switched_off(router, backend):
    """response_headers: false hides backend and reason."""
    b = backend()
    c = Client(router([b.url], response_headers=False).port)
    c.post(chat_body())
    got = c.response()
    assert got.status == 200 and not got.all("x-kvsteer-backend") and not got.all("x-kvsteer-reason")


def test_alias_is_rewritten_on_request(router, backend):
    """rewrite_model: the alias in the body becomes the model's name, nothing else changes."""
    b = backend()
    c = Client(router([pool([b.url], models=["base-model"], aliases={"gpt": "base-model"}, rewrite_model=True)]).port)
    c.post(b'{ "messages":[{"role":"user","content":"gpt"}], "model" : "gpt" , "x":"gpt"}')
    assert c.response().status == 200
    assert b.wait_request().body == b'{ "messages":[{"role":"user","content":"gpt"}], "model" : "base-model" , "x":"gpt"}'


@pytest.mark.parametrize("path,allow", [("/v1/chat/completions", {"POST", "OPTIONS"}), ("/v1/models", {"GET", "HEAD", "OPTIONS"})])
def test_405_names_the_methods_of_its_path(router, backend, path, allow):
    """RFC 9110 15.5.6: Allow of a 405 listed every method there is, the refused one among them."""
    r = router([backend().url])
    c = Client(r.port)
    c.send(b"DELETE %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    got = c.response()
    assert got.status == 405 and set(got.get("allow").split(", ")) == allow
