# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A stream's head is held until its first event: what can be mended before that is mended unseen, and what
never comes does not hold anything for ever."""
import json
import threading
import time

import pytest

from harness import SLOW, chat_body, pool, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Gate, chunk, sse_answer, sse_event

BUSY = (b'data: {"error":{"message":"The engine is currently busy and cannot accept new requests.",'
        b'"type":"Service Unavailable","param":null,"code":503}}\n\n')
PING = b": ping\n\n"


def stream(port, text="hello", **more):
    c = Client(port)
    c.post(chat_body(text, stream=True, **more))
    return c


def whole(got):
    return got.status == 200 and not got.cut and got.body.endswith(SSE_DONE) and b'"error"' not in got.body


@pytest.mark.parametrize("fault", ["busy", "busy-stream", "loading", "refuse"])
@pytest.mark.parametrize("policy", ["cost", "round_robin"])
def test_fault_is_unseen_when_others_can(router, sim, fault, policy):
    """One of two simulated nodes refuses everything: not one of a hundred streams shows it, and the retries are counted."""
    s = sim(nodes=2, args=["--time-scale", "20", "--fault", "0:%s" % fault])
    r = router([pool(s.urls(), policy=policy)], ready=False)
    bad, good = ("127.0.0.1:%d" % (s.port + i) for i in range(2))
    failures, lock = [], threading.Lock()

    def client(k):
        for i in range(10):
            c = stream(r.port, "client %d turn %d " % (k, i) * 30)
            got = c.response(timeout=30)
            c.close()
            if not whole(got) or got.get("x-kvsteer-backend") != good:
                with lock:
                    failures.append((got.status, got.cut, got.body[-100:]))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50 * SLOW)
        assert not t.is_alive()
    assert failures == [], failures[:3]
    # an answer is counted behind its last byte: the client may be here first
    wait_until(lambda: r.metrics().sum("kvsteer_requests_total", backend=good, code="200") == 100, what="a hundred counted")
    m = r.metrics()
    assert m.sum("kvsteer_retries_total") >= 1
    assert [(have, v) for n, have, v in m.series if n == "kvsteer_errors_total" and v] == [], r.access_lines()
    assert m.sum("kvsteer_requests_total", backend=bad) == 0


@pytest.mark.parametrize("first", [b"", PING, b"event: x\n", b"data: {"], ids=["nothing", "ping", "half", "cut"])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_dies_between_head_and_first_event(router, backend, first, end):
    """200, perhaps a comment, and the connection breaks: nothing of it was passed on, the next node answers."""
    def die(p, q):
        p.send(SSE_HEAD + (chunk(first) if first else b""))
        if end == "rst":
            time.sleep(0.02) # so that the bytes are read before the reset overtakes them
            p.rst()
        return "close"

    bad, good = backend(die), backend(lambda p, q: p.send(sse_answer()))
    r = router([pool([bad.url, good.url], policy="round_robin")], workers=1)
    for _ in range(4):
        got = stream(r.port).response()
        assert whole(got) and b"ping" not in got.body and b"event: x" not in got.body
        assert got.get("x-kvsteer-backend") == good.name
    assert bad.requests and "retry=1" in "".join(r.access_lines()) or r.metrics().sum("kvsteer_retries_total") >= 1


def test_every_node_busy_after_200(router, backend):
    """Nobody can: the client is told so once, by an error or by the last engine's own words, and each node was
    asked once."""
    nodes = [backend(lambda p, q: p.send(SSE_HEAD + chunk(BUSY) + chunk(SSE_DONE) + LAST_CHUNK)) for _ in range(3)]
    r = router([pool([b.url for b in nodes], policy="round_robin")], workers=1)
    got = stream(r.port).response()
    assert got.status == 503 or b"currently busy" in got.body
    assert [len(b.requests) for b in nodes] == [1, 1, 1]


def test_busy_condemns_nobody(router, backend):
    """A node that said busy is passed over for a moment and gets its share again: it is full, not broken."""
    answers = iter([False] * 2)
    busy = backend(lambda p, q: p.send(sse_answer() if next(answers, True) else
                                       SSE_HEAD + chunk(BUSY) + chunk(SSE_DONE) + LAST_CHUNK))
    good = backend(lambda p, q: p.send(sse_answer()))
    r = router([pool([busy.url, good.url], policy="round_robin")], workers=1)
    names = []

    def ask():
        names.append(stream(r.port).response().get("x-kvsteer-backend"))
        assert all(b["state"] == "ready" for b in r.backends().values())
        return names[-4:].count(busy.name) == 2

    wait_until(ask, 1, "its share again")
    assert len(busy.requests) >= 4 and names[0] == names[1] == good.name


def test_retries_are_a_share_of_the_requests(router, backend):
    """A fleet that fails as a whole is not asked two and three times for everything: beyond what is saved up,
    a fifth of the requests are tried again."""
    nodes = [backend(lambda p, q: p.rst()) for _ in range(3)]
    r = router([pool([b.url for b in nodes], policy="round_robin")], workers=1)
    n = 150
    for i in range(n):
        c = Client(r.port)
        c.post(chat_body("r%d" % i))
        assert c.response().status in (502, 503)
        c.close()
    asked = sum(len(b.requests) for b in nodes)
    assert asked <= n + 20 + n * 0.2 + 2, "%d requests, %d at the backends" % (n, asked)
    assert r.metrics().sum("kvsteer_retries_total") >= 20


def test_head_is_held_no_longer_than_head_hold(router, backend):
    """A long prefill after an early 200: the client gets its head after timeouts.head_hold, and the first token when
    it comes."""
    gate = Gate()

    def play(p, q):
        p.send(SSE_HEAD)
        gate.wait()
        p.send(chunk(sse_event("late")) + chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url], timeouts={"head_hold": "400ms"})
    start = time.monotonic()
    c = stream(r.port)
    b.wait_request(1)
    assert c.silent(0.2)
    got = c.response_head(timeout=5)
    assert got.status == 200 and time.monotonic() - start >= 0.39
    assert c.silent(0.1)
    gate.open()
    got.read_body(c)
    assert whole(got) and b"late" in got.body
    r.wait_access("status=200", "reason=-")


@pytest.mark.parametrize("pings", [False, True])
def test_first_token_limit_outlasts_the_hold(router, backend, pings):
    """The head is out and no token follows, with or without comments: cut at timeouts.first_token, visibly."""
    def play(p, q):
        p.send(SSE_HEAD)
        while True:
            if pings:
                p.send(chunk(PING))
            time.sleep(0.02)
            if not p.silent(0):
                return "close"

    b = backend(play)
    r = router([b.url], timeouts={"head_hold": "200ms", "first_token": "800ms", "stream_idle": "60s"})
    start = time.monotonic()
    got = stream(r.port).response(timeout=10)
    took = time.monotonic() - start
    assert got.cut or got.status == 504
    assert 0.79 <= took < 3 * SLOW, took
    r.wait_access("reason=first_token_timeout")
    r.wait_in_flight(0)


def test_pings_do_not_keep_a_dead_stream_for_ever(router, backend):
    """Tokens, then comments only: they count as life for a while; the stream is cut all the same."""
    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("one")))
        while p.silent(0.1):
            p.send(chunk(PING))
        return "close"

    b = backend(play)
    r = router([b.url], timeouts={"stream_idle": "500ms"})
    start = time.monotonic()
    got = stream(r.port).response(timeout=20)
    took = time.monotonic() - start
    assert got.cut and b"one" in got.body and got.body.count(b": ping") >= 10
    assert 1 < took < 6 * SLOW, took
    r.wait_access("reason=stream_idle")
    r.wait_in_flight(0)


def test_tokens_among_pings_keep_a_stream(router, backend):
    """A slow engine that pings between its tokens is alive."""
    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(4):
            for _ in range(8):
                p.send(chunk(PING))
                time.sleep(0.02)
            p.send(chunk(sse_event("w%d" % i)))
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    r = router([backend(play).url], timeouts={"stream_idle": "400ms"})
    got = stream(r.port).response(timeout=20)
    assert whole(got) and got.body.count(b": ping") == 32


def test_stalled_engine_is_left(router, sim):
    """A simulated node freezes in the middle of its streams: they are cut at stream_idle, its slots are free, and
    the other node serves on."""
    s = sim(nodes=2, args=["--fault", "0:stall@1.5"])
    r = router([pool(s.urls(), policy="round_robin")], workers=1, timeouts={"stream_idle": "700ms", "head_hold": "300ms",
                                                                            "first_token": "3s"})
    clients = [stream(r.port, "s%d" % i, max_tokens=400) for i in range(6)]
    got = [c.response(timeout=30) for c in clients]
    by_node = {}
    for g in got:
        by_node.setdefault(g.get("x-kvsteer-backend"), []).append(g)
    bad, good = ("127.0.0.1:%d" % (s.port + i) for i in range(2))
    assert len(by_node[bad]) == len(by_node[good]) == 3
    assert all(g.cut and b"data:" in g.body for g in by_node[bad])
    assert all(whole(g) for g in by_node[good])
    wait_until(lambda: json.loads(r.ctl("-j", "flow", "list").stdout)["flows"] == [], what="no flows left")
