# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Backends that fail, in every way that one can: what is unseen stays unseen, what can't be
mended is visible, and no failing node looks fast."""
import collections
import json
import threading
import time

import pytest

from harness import SLOW, chat_body, pool, ports, wait_until
from peer import (LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Closed, Gate, chunk, head, json_answer, sse_answer,
                  sse_event)

BUSY = json.dumps({"error": {"message": "The engine is currently busy and cannot accept new requests.",
                             "type": "Service Unavailable", "param": None, "code": 503}}).encode()
LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'


def ask(port, body, path="/v1/chat/completions", timeout=20):
    c = Client(port)
    try:
        c.post(body, path)
        return c.response(timeout=timeout)
    finally:
        c.close()


def code_of(got):
    return json.loads(got.body)["error"]["code"]


def test_refused_connection_is_unseen(router, backend):
    """A node that nobody listens on: its requests go elsewhere, and soon none tries it."""
    b = backend()
    dead = "http://127.0.0.1:%d" % ports.get()
    r = router([pool([dead, b.url], policy="round_robin")], ready=False)
    for i in range(20):
        assert ask(r.port, chat_body("r%d" % i)).status == 200
    assert len(b.requests) == 20
    assert r.metrics().sum("kvsteer_errors_total") == 0


def test_all_refused(router, backend):
    """Nobody to go to: a clear 502 or 503, at once."""
    r = router(["http://127.0.0.1:%d" % ports.get()], ready=False)
    for _ in range(3):
        start = time.monotonic()
        got = ask(r.port, chat_body())
        assert (got.status, code_of(got)) in ((502, "connect_failed"), (503, "no_backend"))
        assert time.monotonic() - start < 2 * SLOW


def test_node_comes_back(router, backend):
    """An exclusion expires: a node that listens again gets requests again."""
    a = backend()
    port = ports.get()
    r = router([pool([a.url, "http://127.0.0.1:%d" % port], policy="round_robin")], ready=False, workers=1)
    for _ in range(6):
        assert ask(r.port, chat_body()).status == 200
    b = backend(port=port)
    wait_until(lambda: ask(r.port, chat_body()).status == 200 and b.requests, 20, "a request at the node that came back",
               every=0.1)


@pytest.mark.parametrize("policy", ["cost", "least_request", "round_robin"])
def test_node_that_fails_at_once_does_not_look_fast(router, backend, policy):
    """A 500 in no time makes a node the least busy one: it must not attract the traffic."""
    bad = backend(lambda p, q: p.send(json_answer(b'{"error":{"message":"boom","code":500}}', "500 Internal Server Error")))

    def slow(p, q):
        time.sleep(0.005)
        p.send(json_answer())

    good = backend(slow)
    r = router([pool([bad.url, good.url], policy=policy)])
    for i in range(60):
        ask(r.port, chat_body("distinct %d " % i * 50))
    assert len(bad.requests) <= 20, "%d of 60 went to the failing node" % len(bad.requests)
    assert len(good.requests) >= 40


def test_client_errors_condemn_nobody(router, backend):
    """Four hundreds are the clients' fault: a node that answers them keeps its share."""
    a = backend(lambda p, q: p.send(json_answer(b'{"error":{"message":"too long","code":400}}', "400 Bad Request")))
    b = backend()
    r = router([pool([a.url, b.url], policy="round_robin")], workers=1)
    statuses = collections.Counter(ask(r.port, chat_body("x%d" % i)).status for i in range(40))
    assert statuses == {400: 20, 200: 20}


def test_node_that_hangs(router, backend):
    """Accepts, reads, never answers: 504 at the first-token limit, the engine's connection
    closed, and the others serve on meanwhile."""
    hang = backend(lambda p, q: setattr(p, "closed_at", p.wait_closed(30)))
    good = backend()
    r = router([pool([hang.url, good.url], policy="round_robin")], timeouts={"first_token": "1s"}, workers=1)
    stuck = []
    for i in range(2):
        c = Client(r.port)
        c.post(chat_body("h%d" % i, stream=True))
        stuck.append(c)
    wait_until(lambda: hang.requests and good.requests, what="one request each")
    for i in range(4):
        c = Client(r.port)
        c.post(chat_body("o%d" % i, stream=True))
        stuck.append(c)
    answers = [c.response(timeout=10) for c in stuck]
    assert {a.status for a in answers} <= {200, 504} and len(hang.requests) >= 1
    late = [a for a in answers if a.status == 504]
    assert len(late) == len(hang.requests) and all(code_of(a) == "first_token_timeout" for a in late)
    wait_until(lambda: all(hasattr(q.peer, "closed_at") for q in hang.requests), 2, "its connections closed")


@pytest.mark.parametrize("end", ["fin", "rst", "half_head"])
@pytest.mark.parametrize("stream", [False, True])
def test_dies_before_the_answer_retried(router, backend, end, stream):
    """Not a byte had been passed on: the next node answers and the client sees nothing of it."""
    def die(p, q):
        if end == "half_head":
            p.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        if end == "rst":
            p.rst()
        return "close"

    bad = backend(die)
    good = backend(lambda p, q: p.send(sse_answer() if stream else json_answer()))
    r = router([pool([bad.url, good.url], policy="round_robin")], workers=1)
    for i in range(6):
        got = ask(r.port, chat_body("d%d" % i, stream=stream))
        assert got.status == 200 and got.cut is None and got.get("x-kvsteer-backend") == good.name
    assert len(bad.requests) >= 1 and len(good.requests) == 6
    assert r.metrics().sum("kvsteer_retries_total") >= 1


@pytest.mark.parametrize("end", ["fin", "rst"])
def test_dies_before_the_answer_alone(router, backend, end):
    """With no other node: 502 with the reason, not a closed connection."""
    def die(p, q):
        if end == "rst":
            p.rst()
        return "close"

    b = backend(die)
    r = router([b.url])
    got = ask(r.port, chat_body())
    assert got.status == 502 and code_of(got) == "backend_reset"
    assert 1 <= len(b.requests) <= 3


def cut_json(p):
    p.send(head(Content_Type="application/json", Content_Length=1000) + b'{"half":')


def cut_stream(p):
    p.send(SSE_HEAD + chunk(sse_event("one")) + chunk(sse_event("two")))


def cut_chunk(p):
    p.send(SSE_HEAD + chunk(sse_event("one")) + b"100\r\ndata: ")


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("begin", [cut_json, cut_stream, cut_chunk])
def test_dies_in_mid_answer_is_visible(router, backend, begin, end):
    """The answer has begun: it can't be mended, and must not look whole: no last chunk, fewer
    bytes than Content-Length says, or a reset."""
    go = Gate()

    def play(p, q):
        begin(p)
        go.wait()
        if end == "rst":
            p.rst()
        return "close"

    b = backend(play)
    r = router([b.url])
    c = Client(r.port)
    c.post(chat_body(stream=begin is not cut_json))
    got = c.response_head()
    assert got.status == 200
    go.open()
    got.read_body(c)
    assert got.cut in ("fin", "rst")
    r.wait_access("reason=stream_cut")


def test_cut_is_visible_to_http10(router, backend):
    """A 1.0 client has no chunks to count: a cut answer must end in a reset, for a FIN would make it whole."""
    go = Gate()

    def play(p, q):
        cut_stream(p)
        go.wait()
        return "close"

    b = backend(play)
    r = router([b.url])
    c = Client(r.port)
    body = chat_body(stream=True)
    c.send(b"POST /v1/chat/completions HTTP/1.0\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    c.until(b"two")
    go.open()
    assert c.wait_closed()[1] == "rst"


def test_close_delimited_answer(router, backend):
    """An answer without framing ends with its connection: passed on whole; a reset is a cut."""
    ends = iter(["fin", "rst"])

    def play(p, q):
        p.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":1}")
        if next(ends) == "rst":
            time.sleep(0.05) # so that the bytes are read before the reset overtakes them
            p.rst()
        return "close"

    r = router([backend(play).url])
    got = ask(r.port, chat_body())
    assert (got.status, got.body, got.cut) == (200, b'{"a":1}', None)
    c = Client(r.port)
    c.post(chat_body())
    try:
        got = c.response()
        assert got.status == 502 or got.cut
    except Closed as closed:
        assert closed.how == "rst"


BAD_ANSWERS = {
    "garbage": b"hello\r\n\r\n",
    "not-http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "cl-and-te": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "cl-differ": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "cl-bad": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
    "cl-negative": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    "status-text": b"HTTP/1.1 200OK\r\nContent-Length: 2\r\n\r\n{}",
    "status-99": b"HTTP/1.1 99 X\r\nContent-Length: 2\r\n\r\n{}",
    "nul": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "endless-head": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 200000 + b"\r\n\r\n",
    "1xx-flood": b"HTTP/1.1 102 Processing\r\n\r\n" * 50 + json_answer(),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_malformed_answer(router, backend, name):
    """A backend that does not speak HTTP: 502 to the client, its connection dropped."""
    def play(p, q):
        p.send(BAD_ANSWERS[name])
        p.closed_at = p.wait_closed(10)

    b = backend(play)
    r = router([b.url])
    got = ask(r.port, chat_body())
    assert got.status == 502 and code_of(got) == "backend_bad_response", got.body
    wait_until(lambda: all(hasattr(q.peer, "closed_at") for q in b.requests), 2, "backend connection closed")


def test_dead_idle_connection_is_retried_unseen(router, backend):
    """The race of every keep-alive: the engine closes just as the next request comes. One
    retry on a fresh connection, though the pool has no other node."""
    def play(p, q):
        p.served = getattr(p, "served", 0) + 1
        if p.served > 1:
            p.rst()
            return "close"
        p.send(json_answer())

    b = backend(play)
    r = router([b.url], workers=1)
    c = Client(r.port)
    for i in range(10):
        c.post(chat_body("n%d" % i))
        assert c.response().status == 200
    assert len(b.requests) > 10 # the resets happened
    assert r.metrics().sum("kvsteer_errors_total") == 0


def test_bytes_on_an_idle_connection_are_nobodys_answer(router, backend):
    """What a backend sends after its answer belongs to no request: the connection is dropped."""
    def play(p, q):
        p.served = getattr(p, "served", 0) + 1
        assert p.served == 1
        p.send(json_answer(b'{"n":%d}' % len(p.backend.requests)) + json_answer(b'{"evil":1}'))
        p.wait_closed(5)

    b = backend(play)
    r = router([b.url], workers=1)
    c = Client(r.port)
    for i in range(5):
        c.post(chat_body())
        assert c.response().body == b'{"n":%d}' % (i + 1)


def test_busy_engine_goes_elsewhere(router, backend):
    """vLLM's 503 means: try another. The client sees the other's answer."""
    busy = backend(lambda p, q: p.send(json_answer(BUSY, "503 Service Unavailable")))
    good = backend()
    r = router([pool([busy.url, good.url], policy="round_robin")], workers=1)
    for i in range(8):
        assert ask(r.port, chat_body("b%d" % i)).status == 200
    assert len(busy.requests) >= 1 and len(good.requests) == 8


@pytest.mark.parametrize("body", [BUSY, LOADING])
def test_busy_everywhere(router, backend, body):
    """All busy or loading: a 503 that says so."""
    b = backend(lambda p, q: p.send(json_answer(body, "503 Service Unavailable")))
    got = ask(router([b.url]).port, chat_body())
    assert got.status == 503 and (got.body == body or code_of(got) in ("backend_busy", "no_backend"))


def test_stream_that_begins_with_an_error_is_retried(router, backend):
    """vLLM may say 200 and then, as its first event, that it is busy, with a clean end: nothing
    but the head was there to pass on, and it was held back for this."""
    busy = backend(lambda p, q: p.send(SSE_HEAD + chunk(b"data: " + BUSY + b"\n\n") + chunk(SSE_DONE) + LAST_CHUNK))
    good = backend(lambda p, q: p.send(sse_answer()))
    r = router([pool([busy.url, good.url], policy="round_robin")], workers=1)
    for i in range(6):
        got = ask(r.port, chat_body("s%d" % i, stream=True))
        assert got.status == 200 and b"busy" not in got.body and got.body.endswith(SSE_DONE)
        assert got.get("x-kvsteer-backend") == good.name
    assert len(busy.requests) >= 1


def test_stream_that_begins_with_an_error_alone(router, backend):
    """With no other node the client gets the engine's own words, one way or the other."""
    b = backend(lambda p, q: p.send(SSE_HEAD + chunk(b"data: " + BUSY + b"\n\n") + chunk(SSE_DONE) + LAST_CHUNK))
    got = ask(router([b.url]).port, chat_body(stream=True))
    assert b"busy" in got.body or got.status == 503


def test_idle_stream_is_cut(router, backend):
    """A stream that falls silent does not hold its slot for ever."""
    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("one")))
        p.closed_at = p.wait_closed(20)

    b = backend(play)
    r = router([b.url], timeouts={"stream_idle": "500ms"})
    got = ask(r.port, chat_body(stream=True))
    assert got.status == 200 and got.cut
    wait_until(lambda: getattr(b.requests[0].peer, "closed_at", None), 2, "backend connection closed")
    r.wait_access("reason=stream_idle")


@pytest.mark.parametrize("fault,visible", [("refuse", False), ("5xx", True), ("busy", False), ("busy-stream", False),
                                           ("byte", False), ("slow-metrics", False)])
def test_one_faulty_node_of_the_simulator(router, sim, fault, visible):
    """A fleet of three with one faulty node under parallel streams: the fault is unseen where it can be."""
    s = sim(nodes=3, args=["--time-scale", "10", "--fault", "0:%s" % fault])
    r = router([pool(s.urls(), policy="round_robin")], ready=False)
    failures, lock = [], threading.Lock()

    def client(k):
        c = Client(r.port)
        for i in range(8):
            c.post(chat_body("client %d turn %d " % (k, i) * 20, stream=True))
            got = c.response(timeout=30)
            if got.status != 200 or got.cut or not got.body.endswith(SSE_DONE) or b'"error"' in got.body:
                with lock:
                    failures.append((got.status, got.cut, got.body[-200:]))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60 * SLOW)
        assert not t.is_alive()
    if visible:
        assert len(failures) <= 24, failures[:3]
    else:
        assert failures == [], failures[:3]
