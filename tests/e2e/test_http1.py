# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""HTTP/1.1 on real sockets: segmentation, pipelining, connection reuse, and requests that try
to mean two things at once."""
import json
import time

import pytest

from harness import chat_body, pool, wait_until
from peer import LAST_CHUNK, Client, Closed, Gate, chunk, head, json_answer, post_bytes, sse_answer


def echo(p, q):
    """Answers with the prompt's text."""
    p.send(json_answer(json.dumps({"echo": json.loads(q.body)["messages"][0]["content"]}).encode()))


def test_split_at_every_offset(router, backend):
    """The same request cut in two anywhere is the same request."""
    b = backend()
    r = router([b.url])
    body = chat_body("split")
    raw = post_bytes(body, fields=["X-Test: 1"])
    c = Client(r.port)
    for at in range(1, len(raw), 3):
        c.send(raw[:at])
        time.sleep(0.001) # two segments, two reads
        c.send(raw[at:])
        assert c.response().status == 200, at
    assert all(q.body == body and q.get("x-test") == "1" for q in b.requests)


@pytest.mark.parametrize("stream", [False, True])
def test_one_byte_writes_both_ways(router, backend, stream):
    """Byte by byte in, byte by byte out: the same bytes."""
    answer = sse_answer(["a", "b"]) if stream else json_answer(b'{"x":"\xc3\xa9"}')
    b = backend(lambda p, q: p.send_each(answer, 1, 0.0002))
    r = router([b.url])
    body = chat_body("one byte h\u00e9", stream=stream)
    c = Client(r.port)
    c.send_each(post_bytes(body), 1, 0.0002)
    got = c.response()
    assert got.status == 200 and got.cut is None and b.wait_request().body == body
    if stream:
        assert got.body.endswith(b"data: [DONE]\n\n") and got.body.count(b"data: ") == 3
    else:
        assert got.body == b'{"x":"\xc3\xa9"}'


def test_pipelined_requests_are_answered_in_order(router, backend):
    """Twenty requests in one write, to two nodes of different speed: answers in the order of the requests."""
    def slow(p, q):
        time.sleep(0.02)
        echo(p, q)

    r = router([pool([backend(slow).url, backend(echo).url], policy="round_robin")])
    c = Client(r.port)
    c.send(b"".join(post_bytes(chat_body("n%d" % i)) for i in range(20)))
    for i in range(20):
        assert json.loads(c.response().body) == {"echo": "n%d" % i}


def test_connections_are_reused(router, backend):
    """Fifty requests of one client: one client connection, one backend connection."""
    b = backend(echo)
    r = router([b.url], workers=1)
    c = Client(r.port)
    for i in range(50):
        c.post(chat_body("n%d" % i))
        assert c.response().status == 200
    assert len({id(q.peer) for q in b.requests}) == 1


def test_backend_that_announces_its_close(router, backend):
    """Connection: close and Keep-Alive: max are believed: no request runs into the close."""
    def play(p, q):
        p.send(head(Content_Length=2, Content_Type="application/json", Connection="close") + b"{}")
        return "close"

    b = backend(play)
    r = router([b.url])
    c = Client(r.port)
    for _ in range(10):
        c.post(chat_body())
        assert c.response().status == 200
    assert len(b.requests) == 10 and r.metrics().sum("kvsteer_retries_total") == 0


def test_client_close_is_honoured(router, backend):
    """Connection: close of the client: one answer, then a clean end."""
    r = router([backend().url])
    c = Client(r.port)
    c.post(chat_body(), fields=["Connection: close"])
    got = c.response()
    assert got.status == 200 and got.get("connection") == "close"
    assert c.wait_closed(2)[1] == "fin"


P = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
J = b'{"model":"m","messages":[]}'
CL = b"Content-Length: %d\r\n" % len(J)
TE = b"Transfer-Encoding: chunked\r\n"
CHUNKED = chunk(J) + LAST_CHUNK
SMUGGLED = {
    "cl-te": (P + CL + TE + b"\r\n" + CHUNKED, 400),
    "te-cl": (P + TE + CL + b"\r\n" + CHUNKED, 400),
    "cl-twice": (P + CL + b"Content-Length: 5\r\n\r\n" + J, 400),
    "cl-same-twice": (P + CL + CL + b"\r\n" + J, 400),
    "cl-list": (P + b"Content-Length: 27, 27\r\n\r\n" + J, 400),
    "cl-plus": (P + b"Content-Length: +27\r\n\r\n" + J, 400),
    "cl-hex": (P + b"Content-Length: 0x1b\r\n\r\n" + J, 400),
    "cl-leading-zero": (P + b"Content-Length: 027\r\n\r\n" + J, 400),
    "cl-huge": (P + b"Content-Length: 99999999999999999999\r\n\r\n" + J, 400),
    "te-space-colon": (P + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKED, 400),
    "te-xchunked": (P + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKED, (400, 501)),
    "te-twice": (P + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNKED, 400),
    "te-not-final": (P + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + CHUNKED, 400),
    "te-gzip": (P + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKED, 501),
    "te-vt": (P + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKED, 400),
    "te-folded": (P + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKED, 400),
    "te-http10": (b"POST /v1/chat/completions HTTP/1.0\r\nHost: a\r\n" + TE + b"\r\n" + CHUNKED, 400),
    "name-ctl": (P + b"X\x01Y: 1\r\n" + CL + b"\r\n" + J, 400),
    "value-nul": (P + b"X: a\0b\r\n" + CL + b"\r\n" + J, 400),
    "value-bare-cr": (P + b"X: a\rContent-Length: 0\r\n" + CL + b"\r\n" + J, 400),
    "value-bare-lf": (P + b"X: a\nContent-Length: 0\r\n" + CL + b"\r\n" + J, 400),
    "lf-only": (P.replace(b"\r\n", b"\n") + CL.replace(b"\r\n", b"\n") + b"\n" + J, 400),
    "space-first-header": (b"POST /v1/chat/completions HTTP/1.1\r\n Host: a\r\n" + CL + b"\r\n" + J, 400),
    "two-hosts": (P + b"Host: b\r\n" + CL + b"\r\n" + J, 400),
    "no-host": (b"POST /v1/chat/completions HTTP/1.1\r\n" + CL + b"\r\n" + J, 400),
    "double-space": (b"POST  /v1/chat/completions HTTP/1.1\r\nHost: a\r\n" + CL + b"\r\n" + J, 400),
    "target-ctl": (b"POST /v1/chat/completions\x01 HTTP/1.1\r\nHost: a\r\n" + CL + b"\r\n" + J, 400),
    "http09": (b"GET /\r\n\r\n", 400),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "connect": (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
    "chunk-0x": (P + TE + b"\r\n0x1b\r\n" + J + b"\r\n" + LAST_CHUNK, 400),
    "chunk-minus": (P + TE + b"\r\n-1b\r\n" + J + b"\r\n" + LAST_CHUNK, 400),
    "chunk-overflow": (P + TE + b"\r\n1000000000000001b\r\n" + J + b"\r\n" + LAST_CHUNK, 400),
    "chunk-lf": (P + TE + b"\r\n1b\n" + J + b"\r\n" + LAST_CHUNK, 400),
    "chunk-spill": (P + TE + b"\r\n1b\r\n" + J + b"XX" + LAST_CHUNK, 400),
    "chunk-then-get": (P + TE + b"\r\nzz\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", 400),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One router for the whole table: it must not be hurt by any of it."""
    from harness import Router
    from peer import Backend
    b = Backend(echo)
    r = Router(str(tmp_path_factory.mktemp("http1")), {"pools": [pool([b.url])]})
    yield r, b
    r.stop()
    b.close()


@pytest.mark.parametrize("name", SMUGGLED)
def test_ambiguous_request_is_refused(shared, name):
    """One answer, Connection: close, an end within a second, and not a byte to the backend. What
    follows on the connection is never taken for a request."""
    r, b = shared
    raw, want = SMUGGLED[name]
    before = b.bytes_in
    c = Client(r.port)
    c.send(raw + post_bytes(chat_body("smuggled")))
    got = c.response()
    assert got.status in (want if isinstance(want, tuple) else (want,)), got.body
    assert got.get("connection") == "close"
    rest, _ = c.to_end(2)
    assert rest == b""
    assert b.bytes_in == before
    # The router is as well as before.
    c = Client(r.port)
    c.post(chat_body("after"))
    assert json.loads(c.response().body) == {"echo": "after"}


ODD_BYTES = [bytes([c]) for c in list(range(0x00, 0x20)) + list(range(0x7f, 0x100))]
TE_PLACES = ["%sTransfer-Encoding: chunked", "Trans%sfer-Encoding: chunked", "Transfer-Encoding%s: chunked",
             "Transfer-Encoding:%schunked", "Transfer-Encoding: %schunked", "Transfer-Encoding: chu%snked",
             "Transfer-Encoding: chunked%s", "Transfer-Encoding: chunked%s, ", "Transfer-Encoding: x%schunked",
             "%s: x\r\nTransfer-Encoding: gzip%schunked"]


@pytest.mark.parametrize("place", TE_PLACES)
def test_smuggler_matrix(shared, place):
    """Every control and high byte in every place around `Transfer-Encoding: chunked`: only blanks
    beside the value are the same thing, nothing else is ever taken for it."""
    r, b = shared
    before = b.bytes_in
    for byte in ODD_BYTES:
        line = place.encode().replace(b"%s", byte)
        blank = byte in b" \t" and place in ("Transfer-Encoding:%schunked", "Transfer-Encoding: %schunked",
                                             "Transfer-Encoding: chunked%s")
        if blank:
            continue
        c = Client(r.port)
        c.send(P + line + b"\r\n\r\n" + CHUNKED)
        got = c.response()
        assert got.status in (400, 501), line
        c.close()
    assert b.bytes_in == before


def test_accepted_oddities(shared):
    """What is legal, if rare, is accepted, and re-serialised for the backend."""
    r, b = shared
    body = chat_body("odd")
    for raw in (
        b"\r\n" + post_bytes(body),
        post_bytes(body).replace(b"Content-Length: ", b"cOnTeNt-LeNgTh:  \t"),
        P + b"Transfer-Encoding: \tcHuNkEd \r\n\r\n" + chunk(body[:5]) + chunk(body[5:]) + LAST_CHUNK,
        P + TE + b"\r\n" + b"%X;a=b;c\r\n" % len(body) + body + b"\r\n0\r\nX-Trailer: 1\r\n\r\n",
        post_bytes(body).replace(b"POST /", b"POST http://kvsteer.test/"),
        P + b"X-High: \xe9\x80\r\nX-Tab: a\tb\r\n" + b"Content-Length: %d\r\n\r\n" % len(body) + body,
    ):
        n = len(b.requests)
        c = Client(r.port)
        c.send(raw)
        assert json.loads(c.response().body) == {"echo": "odd"}, raw
        seen = b.wait_request(n + 1)
        assert seen.body == body and seen.target == "/v1/chat/completions" and seen.get("x-trailer") is None
        c.close()


def test_chunked_request_with_many_chunks(shared):
    """A chunked body is unchunked, scanned and passed on whole."""
    r, b = shared
    body = chat_body("chunks " * 3000)
    n = len(b.requests)
    c = Client(r.port)
    c.send(P + TE + b"\r\n" + b"".join(chunk(body[i:i + 17]) for i in range(0, len(body), 17)) + LAST_CHUNK)
    assert c.response().status == 200
    assert b.wait_request(n + 1).body == body


def test_expect_100_continue(shared):
    """The interim answer comes before the body; an expectation that nobody knows is refused."""
    r, b = shared
    body = chat_body("expected")
    c = Client(r.port)
    c.send(P + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
    assert c.until(b"\r\n\r\n", 3).startswith(b"HTTP/1.1 100 ")
    c.send(body)
    assert json.loads(c.response().body) == {"echo": "expected"}
    c = Client(r.port)
    c.send(P + b"Expect: 200-maybe\r\nContent-Length: %d\r\n\r\n" % len(body))
    assert c.response().status == 417


def test_http10_client(router, backend):
    """No chunks, no keep-alive unless asked for; the answer ends with the connection."""
    b = backend(lambda p, q: p.send(sse_answer(["x", "y"])))
    r = router([b.url])
    body = chat_body(stream=True)
    c = Client(r.port)
    c.send(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    got = c.response()
    assert got.status == 200 and not got.all("transfer-encoding") and not got.all("content-length")
    assert got.cut is None and got.body.endswith(b"data: [DONE]\n\n") and got.body.count(b"data: ") == 3


def test_interim_answers_of_the_backend(router, backend):
    """1xx go through to 1.1 clients, in front of the final answer."""
    b = backend(lambda p, q: p.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 2 + json_answer()))
    c = Client(router([b.url]).port)
    c.post(chat_body())
    got = c.response()
    assert got.status == 200 and {i.status for i in got.interims} <= {103}


def test_answer_before_the_body_has_come(router, backend):
    """A backend may refuse a body that is still being sent: the client gets that answer."""
    def refuse(p, q):
        p.send(head("413 Content Too Large", Content_Type="application/json", Content_Length=2, Connection="close") + b"{}")

    b = backend(on_head=refuse)
    r = router([b.url], limits={"scan": "64KiB"})
    c = Client(r.port)
    body = chat_body("x" * 3000000)
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:1000000])
    got = c.response()
    assert got.status == 413 and got.body == b"{}"


def test_limits_of_heads(router, backend):
    """431, 414, 413 and 408, each without the backend's knowledge."""
    b = backend()
    r = router([b.url], limits={"head": "16KiB", "headers": 20, "body": "64KiB", "scan": "64KiB"}, timeouts={"head": "500ms"})

    def refused(raw, status, code):
        c = Client(r.port)
        c.send(raw)
        got = c.response()
        assert (got.status, json.loads(got.body)["error"]["code"]) == (status, code)
        c.to_end(3)

    refused(P + b"X: " + b"a" * 9000 + b"\r\nY: " + b"a" * 9000 + b"\r\n\r\n", 431, "header_too_large")
    refused(P + b"".join(b"X-%d: 1\r\n" % i for i in range(30)) + b"\r\n", 431, "header_too_large")
    refused(b"POST /v1/chat/completions?" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long")
    refused(P + b"Content-Length: 65537\r\n\r\n", 413, "body_too_large")
    refused(P + TE + b"\r\n" + chunk(b" " * 40000) + chunk(b" " * 40000), 413, "body_too_large")
    refused(P + b"X: never", 408, "request_timeout")
    assert b.bytes_in == 0


def test_idle_client_is_closed(router, backend):
    """timeouts.keepalive: a connection between requests is closed in peace."""
    r = router([backend().url], timeouts={"keepalive": "500ms"})
    c = Client(r.port)
    c.post(chat_body())
    assert c.response().status == 200
    start = time.monotonic()
    end, how = c.wait_closed(5)
    assert how == "fin" and end - start >= 0.4


def test_slow_backend_head_is_not_an_error(router, backend):
    """A byte of the answer's head now and then is slow, not broken."""
    go = Gate()

    def play(p, q):
        p.send(b"HTTP/1.1 200 OK\r\nConte")
        go.wait()
        p.send(b"nt-Length: 2\r\n\r\n{}")

    b = backend(play)
    c = Client(router([b.url]).port)
    c.post(chat_body())
    b.wait_request()
    assert c.silent(0.2)
    go.open()
    assert c.response().body == b"{}"


def test_connection_limit(router, backend):
    """Beyond limits.connections: 503 or a refusal, and those inside are served."""
    r = router([backend().url], limits={"connections": 20}, workers=1)
    inside = [Client(r.port) for _ in range(20)]
    for c in inside:
        c.post(chat_body())
        assert c.response().status == 200
    outside = Client(r.port)
    try:
        outside.post(chat_body())
        assert outside.response().status == 503
    except (Closed, OSError):
        pass
    inside[0].post(chat_body())
    assert inside[0].response().status == 200
    for c in inside:
        c.close()
    wait_until(lambda: r.metrics().sum("kvsteer_connections", side="client") == 0, what="no client connections")
